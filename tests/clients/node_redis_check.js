// node-redis: the third version of the protocol, scripts, transactions that watch, scans, messages.
const assert = require('assert');
const { createClient, defineScript } = require('redis');

async function main() {
  const raise = defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: "return redis.call('incrby', KEYS[1], ARGV[1])",
    parseCommand(parser, key, by) { parser.pushKey(key); parser.push(String(by)); },
    transformReply: (reply) => reply,
  });
  const url = `redis://127.0.0.1:${process.env.PORT}`;
  const client = createClient({ url, RESP: 3, scripts: { raise } });
  await client.connect();
  assert.equal(await client.set('a', 'one', { expiration: { type: 'EX', value: 60 } }), 'OK');
  assert.equal(await client.get('a'), 'one');
  assert.equal(await client.raise('n', 5), 5);
  await client.watch('n');
  assert.deepEqual(await client.multi().incr('n').get('n').exec(), [6, '6']);
  await client.zAdd('z', [{ score: 1.5, value: 'x' }, { score: 2, value: 'y' }]);
  assert.deepEqual(await client.zRangeWithScores('z', 0, -1),
    [{ value: 'x', score: 1.5 }, { value: 'y', score: 2 }]);
  const seen = [];
  for await (const keys of client.scanIterator()) seen.push(...keys);
  assert.deepEqual(seen.sort(), ['a', 'n', 'z']);
  const other = client.duplicate();
  await other.connect();
  const told = new Promise((resolve) => other.subscribe('news', resolve));
  while (await client.publish('news', 'hello') === 0);
  assert.equal(await told, 'hello');
  client.destroy();
  other.destroy();
}

main().catch((error) => { console.error(error.message); process.exit(1); });
