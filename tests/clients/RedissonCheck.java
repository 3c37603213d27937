// Redisson: locks, maps, counters, queues, messages.
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

class RedissonCheck {
    static void must(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.setCodec(new StringCodec());
        config.useSingleServer().setAddress("redis://127.0.0.1:" + System.getenv("PORT"));
        RedissonClient redis = Redisson.create(config);
        var lock = redis.getLock("lock");
        lock.lock(10, TimeUnit.SECONDS);
        must(!CompletableFuture.supplyAsync(() -> redis.getLock("lock").tryLock()).get(), "two");
        lock.unlock();
        var map = redis.<String, String>getMap("map");
        must(map.put("a", "one") == null && map.put("a", "two").equals("one"), "map");
        must(map.putIfAbsent("a", "three").equals("two") && map.size() == 1, "putIfAbsent");
        must(redis.getAtomicLong("n").compareAndSet(0, 5), "compareAndSet");
        var queue = redis.<String>getBlockingQueue("queue");
        queue.add("x");
        must(queue.poll(5, TimeUnit.SECONDS).equals("x"), "queue");
        var told = new CompletableFuture<String>();
        var topic = redis.getTopic("news");
        topic.addListener(String.class, (channel, text) -> told.complete(text));
        topic.publish("hello");
        must(told.get(5, TimeUnit.SECONDS).equals("hello"), "message");
        redis.shutdown();
    }
}
