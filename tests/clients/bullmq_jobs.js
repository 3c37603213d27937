// BullMQ: `push` or `work`.
const { Queue, Worker } = require('bullmq');
const fs = require('fs');

const connection = {
  host: '127.0.0.1', port: Number(process.env.PORT), maxRetriesPerRequest: null,
  retryStrategy: () => 100,
};

async function push() {
  const queue = new Queue('jobs', { connection });
  queue.on('error', () => {}); // the server is down
  for (let number = 0; ; number++) {
    await queue.add('ran', number, { removeOnComplete: true });
    console.log(number);
  }
}

function work() {
  // A job whose worker has lost its connection is taken again after two seconds.
  const options = { connection, lockDuration: 2000, stalledInterval: 1000, maxStalledCount: 100 };
  const worker = new Worker('jobs', async (job) => {
    fs.appendFileSync(process.env.RAN, `${job.data}\n`);
  }, options);
  worker.on('error', () => {});
}

process.argv[2] === 'push' ? push() : work();
