// ioredis: commands of one's own (defineCommand), pipelines, transactions, scans, messages.
const assert = require('assert');
const { Redis } = require('ioredis');

async function main() {
  const redis = new Redis(Number(process.env.PORT));
  redis.defineCommand('raise', {
    numberOfKeys: 1,
    lua: "local n = redis.call('incrby', KEYS[1], ARGV[1]); return {n, KEYS[1]}",
  });
  assert.deepEqual(await redis.raise('n', 5), [5, 'n']);
  assert.deepEqual(await redis.pipeline().raise('n', 1).get('n').exec(), [[null, [6, 'n']], [null, '6']]);
  assert.deepEqual(await redis.multi().set('a', 1).incr('a').exec(), [[null, 'OK'], [null, 2]]);
  await redis.hset('h', { one: 1, two: 2 });
  assert.deepEqual(await redis.hgetall('h'), { one: '1', two: '2' });
  const seen = [];
  for await (const keys of redis.scanStream({ match: '*' })) seen.push(...keys);
  assert.deepEqual(seen.sort(), ['a', 'h', 'n']);
  const other = redis.duplicate();
  await other.subscribe('news');
  const told = new Promise((resolve) => other.on('message', (_, text) => resolve(text)));
  await redis.publish('news', 'hello');
  assert.equal(await told, 'hello');
  const late = redis.duplicate();
  const popped = late.blpop('list', 5);
  await redis.rpush('list', 'x');
  assert.deepEqual(await popped, ['list', 'x']);
  [redis, other, late].forEach((client) => client.disconnect());
}

main().catch((error) => { console.error(error.message); process.exit(1); });
