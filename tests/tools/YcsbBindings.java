// What YCSB's client calls: records by Redis' and by memcached's protocol, in the shapes that its
// own bindings give them. Those are in no registry of packages; the client is.
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import com.google.gson.Gson;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.MemcachedClient;
import redis.clients.jedis.Jedis;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

public class YcsbBindings {
    abstract static class Records extends DB {
        static Map<String, String> strings(Map<String, ByteIterator> values) {
            return values.entrySet().stream()
                .collect(Collectors.toMap(Map.Entry::getKey, field -> field.getValue().toString()));
        }

        static void answer(Map<String, String> found, Set<String> fields,
                           Map<String, ByteIterator> result) {
            found.forEach((field, value) -> {
                if (fields == null || fields.contains(field)) {
                    result.put(field, new StringByteIterator(value));
                }
            });
        }

        int port() {
            return Integer.parseInt(getProperties().getProperty("port"));
        }
    }

    // A record is a hash. The keys are in a sorted set too, for scans.
    public static class OfRedis extends Records {
        private static final String KEYS = "_indices";
        private Jedis client;

        @Override
        public void init() {
            client = new Jedis("127.0.0.1", port());
        }

        @Override
        public void cleanup() {
            client.close();
        }

        @Override
        public Status read(String table, String key, Set<String> fields,
                           Map<String, ByteIterator> result) {
            answer(client.hgetAll(key), fields, result);
            return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
        }

        @Override
        public Status scan(String table, String from, int count, Set<String> fields,
                           Vector<HashMap<String, ByteIterator>> result) {
            double start = from.hashCode();
            double end = Double.POSITIVE_INFINITY;
            for (String key : client.zrangeByScore(KEYS, start, end, 0, count)) {
                var values = new HashMap<String, ByteIterator>();
                read(table, key, fields, values);
                result.add(values);
            }
            return Status.OK;
        }

        @Override
        public Status update(String table, String key, Map<String, ByteIterator> values) {
            client.hset(key, strings(values));
            return Status.OK;
        }

        @Override
        public Status insert(String table, String key, Map<String, ByteIterator> values) {
            client.hset(key, strings(values));
            client.zadd(KEYS, key.hashCode(), key);
            return Status.OK;
        }

        @Override
        public Status delete(String table, String key) {
            client.zrem(KEYS, key);
            return client.del(key) == 1 ? Status.OK : Status.NOT_FOUND;
        }
    }

    // A record is an object of JSON. There are no scans.
    public static class OfMemcached extends Records {
        private final Gson json = new Gson();
        private MemcachedClient client;

        @Override
        public void init() throws DBException {
            System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
            try {
                client = new MemcachedClient(AddrUtil.getAddresses("127.0.0.1:" + port()));
            } catch (java.io.IOException error) {
                throw new DBException(error);
            }
        }

        @Override
        public void cleanup() {
            client.shutdown();
        }

        @SuppressWarnings("unchecked")
        private Map<String, String> record(String key) {
            var found = (String) client.get(key);
            return found == null ? null : json.fromJson(found, Map.class);
        }

        @Override
        public Status read(String table, String key, Set<String> fields,
                           Map<String, ByteIterator> result) {
            var found = record(key);
            if (found == null) {
                return Status.NOT_FOUND;
            }
            answer(found, fields, result);
            return Status.OK;
        }

        @Override
        public Status scan(String table, String from, int count, Set<String> fields,
                           Vector<HashMap<String, ByteIterator>> result) {
            return Status.NOT_IMPLEMENTED;
        }

        private Status set(String key, Map<String, String> record) {
            try {
                return client.set(key, 0, json.toJson(record)).get() ? Status.OK : Status.ERROR;
            } catch (InterruptedException | ExecutionException error) {
                return Status.ERROR;
            }
        }

        @Override
        public Status update(String table, String key, Map<String, ByteIterator> values) {
            var record = record(key);
            if (record == null) {
                return Status.NOT_FOUND;
            }
            record.putAll(strings(values));
            return set(key, record);
        }

        @Override
        public Status insert(String table, String key, Map<String, ByteIterator> values) {
            return set(key, strings(values));
        }

        @Override
        public Status delete(String table, String key) {
            try {
                return client.delete(key).get() ? Status.OK : Status.NOT_FOUND;
            } catch (InterruptedException | ExecutionException error) {
                return Status.ERROR;
            }
        }
    }
}
