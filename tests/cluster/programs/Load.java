// As load.py, by lettuce and jedis: clients of a cluster, and of Sentinel.

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.JedisSentinelPool;

public class Load {
    static BiConsumer<String, String> client(String kind, String[] addresses) {
        List<RedisURI> uris = new ArrayList<>();
        Set<HostAndPort> nodes = new HashSet<>();
        Set<String> names = new HashSet<>(List.of(addresses));
        RedisURI.Builder sentinel = RedisURI.builder().withSentinelMasterId("mymaster");
        for (String address : addresses) {
            HostAndPort node = HostAndPort.from(address);
            nodes.add(node);
            uris.add(RedisURI.create(node.getHost(), node.getPort()));
            sentinel.withSentinel(node.getHost(), node.getPort());
        }
        switch (kind) {
            case "lettuce": {
                var refresh = ClusterTopologyRefreshOptions.builder()
                        .enableAllAdaptiveRefreshTriggers()
                        .enablePeriodicRefresh(Duration.ofSeconds(2))
                        .build();
                RedisClusterClient client = RedisClusterClient.create(uris);
                client.setOptions(ClusterClientOptions.builder()
                        .topologyRefreshOptions(refresh)
                        .timeoutOptions(io.lettuce.core.TimeoutOptions.enabled(Duration.ofSeconds(5)))
                        .build());
                var sync = client.connect().sync();
                return (key, value) -> sync.set(key, value);
            }
            case "lettuce-sentinel": {
                RedisClient client = RedisClient.create(sentinel.build());
                client.setOptions(io.lettuce.core.ClientOptions.builder()
                        .timeoutOptions(io.lettuce.core.TimeoutOptions.enabled(Duration.ofSeconds(5)))
                        .build());
                var sync = client.connect().sync();
                return (key, value) -> sync.set(key, value);
            }
            case "jedis": {
                JedisCluster client = new JedisCluster(nodes, 5000);
                return (key, value) -> client.set(key, value);
            }
            default: {
                JedisSentinelPool pool = new JedisSentinelPool("mymaster", names);
                return (key, value) -> {
                    try (var jedis = pool.getResource()) {
                        jedis.set(key, value);
                    }
                };
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        String kind = arguments[0];
        String prefix = arguments[1];
        String[] addresses = java.util.Arrays.copyOfRange(arguments, 2, arguments.length);
        AtomicBoolean ended = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.readAllBytes();
            } catch (java.io.IOException error) {
                // It is the end as well.
            }
            ended.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        BiConsumer<String, String> put = null;
        for (int number = 0; !ended.get(); number++) {
            try {
                if (put == null) {
                    put = client(kind, addresses);
                }
                put.accept(prefix + number, String.valueOf(number));
                System.out.println(number);
            } catch (RuntimeException error) {
                String said = error.toString();
                System.out.println("error " + String.join(" ", said.split("\\s+")));
                Thread.sleep(100);
            }
            Thread.sleep(3);
        }
        System.exit(0);
    }
}
