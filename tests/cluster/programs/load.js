// As load.py, by ioredis and node-redis.
const PAUSE = 5;
const [kind, prefix, ...addresses] = process.argv.slice(2);
const nodes = addresses.map((address) => {
  const at = address.lastIndexOf(":");
  return { host: address.slice(0, at), port: Number(address.slice(at + 1)) };
});
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const within = (promise, ms) =>
  Promise.race([promise, sleep(ms).then(() => Promise.reject(new Error("no answer in time")))]);

const kinds = {
  ioredis: () => {
    const Redis = require("ioredis");
    return new Redis.Cluster(nodes, { redisOptions: { commandTimeout: 5000 } });
  },
  "ioredis-sentinel": () => {
    const Redis = require("ioredis");
    // With `failoverDetector` it ends for ever where a new master is told while it connects.
    return new Redis({ sentinels: nodes, name: "mymaster" });
  },
  "node-redis": () => {
    const { createCluster } = require("redis");
    const rootNodes = addresses.map((address) => ({ url: `redis://${address}` }));
    const client = createCluster({ rootNodes });
    return client.on("error", () => {}).connect();
  },
  "node-redis-sentinel": () => {
    const { createSentinel } = require("redis");
    const client = createSentinel({ name: "mymaster", sentinelRootNodes: nodes });
    return client.on("error", () => {}).connect();
  },
};

async function main() {
  let ended = false;
  process.stdin.on("end", () => (ended = true)).resume();
  let client = null;
  for (let number = 0; !ended; number++) {
    try {
      if (!client) {
        client = await within(Promise.resolve(kinds[kind]()), 10000);
        client.on("error", () => {});
      }
      await within(client.set(`${prefix}${number}`, String(number)), 5000);
      console.log(number);
    } catch (error) {
      console.log("error", String(error).split(/\s+/).join(" "));
      await sleep(100);
    }
    await sleep(PAUSE);
  }
  process.exit(0);
}
main();
