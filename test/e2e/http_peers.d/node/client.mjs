// Websockets by the package `ws` for the tests of the proxy; over HTTP/2 by Node.
//
//   node client.mjs http1|http2 URL CA|- CASE...    prints the name of each case that passed; fails with a message
//
// Some cases print their progress before that, and wait for a line on standard input to continue.
import assert from 'node:assert/strict';
import crypto from 'node:crypto';
import {once} from 'node:events';
import fs from 'node:fs';
import http2 from 'node:http2';
import {setTimeout as sleep} from 'node:timers/promises';
import WebSocket from 'ws';
import {limits, overStream} from './over_http2.mjs';

const [protocol, url, authorities, ...names] = process.argv.slice(2);
const {count, quiet, extensions, status} = JSON.parse(process.env.OPTIONS ?? '{}');
const trust = authorities === '-' ? {} : {ca: fs.readFileSync(authorities), servername: 'localhost'};

// ---- Opening a websocket

let sessions = [];

async function session() {
  let last = sessions.at(-1);
  if (last && last.opened < last.remoteSettings.maxConcurrentStreams) return last;
  last = http2.connect(url, {...trust, maxSessionMemory: 1000});
  last.on('error', () => {}); // Its streams report the error.
  last.opened = 0;
  sessions.push(last);
  const [settings] = await once(last, 'remoteSettings');
  assert(settings.enableConnectProtocol, 'the server does not take websockets over HTTP/2');
  return last;
}

async function overHttp2(path, offered) {
  const carrier = await session();
  ++carrier.opened;
  const stream = carrier.request({
    ':method': 'CONNECT', ':protocol': 'websocket', ':path': path, ':scheme': url.split(':')[0],
    'sec-websocket-version': 13, origin: url, ...offered && {'sec-websocket-protocol': offered.join(', ')},
  });
  const [head] = await once(stream, 'response');
  if (head[':status'] !== 200) {
    let body = '';
    for await (const piece of stream) body += piece;
    throw Object.assign(new Error(`status ${head[':status']}`), {status: head[':status'], body});
  }
  const socket = overStream(stream, false);
  socket._protocol = head['sec-websocket-protocol'] ?? '';
  return socket;
}

async function overHttp1(path, offered, options) {
  const socket = new WebSocket(url.replace('http', 'ws') + path, offered,
      {...trust, ...limits, perMessageDeflate: false, origin: url, ...options});
  const refused = new Promise((_, reject) => socket.on('unexpected-response', async (_, response) => {
    let body = '';
    for await (const piece of response) body += piece;
    reject(Object.assign(new Error(`status ${response.statusCode}`), {status: response.statusCode, body}));
  }));
  await Promise.race([once(socket, 'open'), refused]);
  return socket;
}

async function open(path = '/websocket', offered, options) {
  const socket = await (protocol === 'http2' ? overHttp2(path, offered) : overHttp1(path, offered, options));
  socket.came = [];
  socket.awaited = [];
  socket.on('message', (data, binary) => {
    const message = binary ? data : data.toString();
    const waiter = socket.awaited.shift();
    waiter ? waiter(message) : socket.came.push(message);
  });
  socket.on('error', error => socket.why = error);
  socket.ended = new Promise(resolve => socket.on('close', (code, reason) => resolve({code, reason: `${reason}`})));
  return socket;
}

// The next message; fails if the socket ends before it.
async function message(socket) {
  if (socket.came.length) return socket.came.shift();
  const next = new Promise(resolve => socket.awaited.push(resolve));
  const early = socket.ended.then(({code}) => {
    if (!socket.came.length) throw new Error(`closed with ${code} (${socket.why}) where a message was awaited`);
  });
  early.catch(() => {}); // After the message, the socket may end in any way.
  return await Promise.race([next, early.then(() => next)]);
}

async function close(socket, code = 1000) {
  socket.close(code);
  assert.equal((await socket.ended).code, code);
}

const continued = () => once(process.stdin, 'data');

// ---- Cases

async function echo(socket, sizes) {
  for (const size of sizes) {
    const text = 'é'.repeat(size / 2) + '-'.repeat(size % 2);
    const bytes = crypto.randomBytes(size);
    socket.send(text);
    assert((await message(socket)) === text, `${size} bytes of text`);
    socket.send(bytes);
    assert((await message(socket)).equals(bytes), `${size} bytes`);
  }
}

const sizes = [0, 1, 2, 124, 125, 126, 127, 128, 1400, 4096, 16383, 16384, 65535, 65536, 65537, 1 << 20];

const cases = {
  async sizes() {
    const socket = await open();
    await echo(socket, sizes);
    await close(socket);
  },

  async compressed() {
    const socket = await open('/websocket', undefined, {perMessageDeflate: {threshold: 0}});
    assert.equal(socket.extensions, extensions);
    await echo(socket, sizes);
    await close(socket);
  },

  async fragments() {
    const socket = await open();
    const bytes = crypto.randomBytes(100_000);
    for (const step of [1000, 16384, 99_999]) {
      for (let at = 0; at < bytes.length; at += step) {
        socket.send(bytes.subarray(at, at + step), {fin: at + step >= bytes.length});
        if (step === 1000 && at === 50_000) socket.ping('between'); // Control frames may be between fragments.
      }
      assert((await message(socket)).equals(bytes));
    }
    await close(socket);
  },

  async fragments_back() {
    const bytes = crypto.randomBytes(100_000);
    for (const step of [1, 125, 5000]) {
      const back = await open(`/fragments?bytes=${step}`);
      back.send(bytes.subarray(0, 20_000));
      assert((await message(back)).equals(bytes.subarray(0, 20_000)));
      await close(back);
    }
  },

  async pings() {
    const socket = await open('/ping');
    for (const payload of ['', 'x', 'y'.repeat(125)]) {
      socket.ping(payload);
      assert.equal(`${await once(socket, 'pong')}`, payload);
      socket.send(payload);
      assert.equal(await message(socket), `ponged ${payload}`);
    }
    await close(socket);
  },

  async client_closes() {
    for (const [code, reason] of [[1000, ''], [1001, 'away'], [3000, 'r'.repeat(123)], [4999, 'é']]) {
      const socket = await open();
      socket.close(code, reason);
      assert.deepEqual(await socket.ended, {code, reason}); // The server returns them.
    }
  },

  async server_closes() {
    for (const [code, reason] of [[1000, ''], [1011, 'trouble'], [3001, 'r'.repeat(123)], [4000, 'é']]) {
      const socket = await open(`/close?code=${code}&reason=${encodeURIComponent(reason)}`);
      socket.send('now');
      assert.deepEqual(await socket.ended, {code, reason});
    }
  },

  async client_breaks_off() {
    for (let i = 0; i < 3; ++i) (await open()).terminate();
  },

  async server_breaks_off() {
    for (const path of ['/end', '/destroy']) {
      const socket = await open(path);
      socket.send('now');
      assert.equal((await socket.ended).code, 1006, path);
    }
  },

  async protocols() {
    const socket = await open('/websocket', ['first', 'second']);
    assert.equal(socket.protocol, 'second');
    await close(socket);
  },

  async forbidden() {
    await assert.rejects(open('/forbidden'), {status: 403, body: 'no!\n'});
  },

  async refused() {
    await assert.rejects(open(), {status});
  },

  async flood() {
    const socket = await open(`/flood?count=${count}`);
    socket.send('now');
    for (let i = 0; i < count; ++i) assert.equal((await message(socket)).trimEnd(), `${i}`);
    const back = await open();
    for (let i = 0; i < count; ++i) back.send(`${i}`);
    for (let i = 0; i < count; ++i) assert.equal(await message(back), `${i}`);
    await close(socket);
    await close(back);
  },

  // All are open at once, idle for a while, and then still open.
  async idle() {
    const sockets = [];
    for (let i = 0; i < count; ++i) sockets.push(await open());
    console.log('open');
    await sleep(quiet);
    await Promise.all(sockets.map((socket, i) => {
      socket.send(`${i}`);
      return message(socket).then(text => assert.equal(text, `${i}`));
    }));
    await Promise.all(sockets.map(socket => close(socket)));
  },

  // A slow reader stops the other side and nothing else; all data arrives once it reads.
  async slow_client() {
    const socket = await open(`/flood?count=${count}`);
    socket.send('now');
    socket.pause();
    console.log('paused');
    await continued();
    const other = await open();
    await echo(other, [1, 100_000]);
    await close(other);
    socket.resume();
    for (let i = 0; i < count; ++i) assert.equal((await message(socket)).trimEnd(), `${i}`);
    await close(socket);
  },

  async slow_server() {
    const socket = await open(`/stall?bytes=${count << 20}`);
    socket.send('now');
    const piece = Buffer.alloc(1 << 20, 'x');
    for (let i = 0; i < count; ++i) socket.send(piece);
    console.log('sent');
    await continued();
    const other = await open('/resume');
    other.send('now');
    assert.equal(await message(socket), `${count << 20} bytes`);
    await close(socket);
    await close(other);
  },

  // The idle connection ends, the other does not.
  async kept_by_pings() {
    const [silent, pinging] = [await open(), await open()];
    const timer = setInterval(() => pinging.ping(), quiet);
    assert.equal((await silent.ended).code, 1006);
    await echo(pinging, [10]);
    clearInterval(timer);
    await close(pinging);
  },

  // Prints when it is open, then whether it still works or how it ended.
  async held() {
    const socket = await open();
    console.log('open');
    await continued();
    await echo(socket, [10, 100_000]);
    console.log('works');
    const {code} = await Promise.race([socket.ended, continued().then(() => close(socket)).then(() => ({code: 1000}))]);
    console.log(`ended with ${code}`);
  },
};

for (const name of names) {
  try {
    await cases[name]();
  } catch (error) {
    console.error(`${name}: ${error.stack}`);
    process.exit(1);
  }
  console.log(name);
}
process.exit(0);
