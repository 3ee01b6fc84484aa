// HTTP by Node with websockets by the package `ws`, for the tests of the proxy.
//
//   node server.mjs http1|http2 [CHAIN KEY]    prints its address, then how each websocket ended as a line of JSON
import crypto from 'node:crypto';
import fs from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';
import {WebSocketServer} from 'ws';
import {limits, overStream} from './over_http2.mjs';

const [protocol, chain, key] = process.argv.slice(2);
const secret = chain && {cert: fs.readFileSync(chain), key: fs.readFileSync(key)};
const printJSON = what => console.log(JSON.stringify(what));

// ---- Requests

async function look(request) {
  const hash = crypto.createHash('sha256');
  let bytes = 0;
  for await (const piece of request) {
    hash.update(piece);
    bytes += piece.length;
  }
  return {
    Method: request.method, Target: request.url, Proto: `HTTP/${request.httpVersion}`,
    Host: request.headers[':authority'] ?? request.headers.host, Header: lists(request.headers),
    Trailer: lists(request.trailers), Bytes: bytes, Hash: hash.digest('hex'), Connection: request.socket.number,
  };
}

// In the format of Go's http.Header.
function lists(fields) {
  const canonical = name => name.replace(/(^|-)[a-z]/g, letter => letter.toUpperCase());
  return Object.fromEntries(Object.entries(fields).filter(([name]) => !name.startsWith(':') && name !== 'host')
      .map(([name, value]) => [canonical(name), [value].flat()]));
}

async function serve(request, response) {
  const {pathname, searchParams} = new URL(request.url, 'http://any');
  if (pathname === '/status') {
    response.writeHead(Number(searchParams.get('code'))).end();
  } else if (pathname === '/small') {
    response.end('x'.repeat(100));
  } else if (pathname === '/hints') {
    response.writeEarlyHints({link: '</0.css>; rel=preload'});
    response.writeEarlyHints({link: '</1.css>; rel=preload'});
    response.end('hinted');
  } else if (pathname === '/hops') {
    response.writeHead(200, {'Connection': 'keep-alive, X-Hop', 'X-Hop': '1', 'Keep-Alive': 'timeout=5',
        'Proxy-Connection': 'keep-alive', 'X-Kept': '1', 'Content-Length': 4}).end('hops');
  } else if (pathname === '/trailers') {
    const came = await look(request);
    response.setHeader('Trailer', 'X-Announced');
    response.write(`${came.Bytes} bytes`);
    const back = Object.entries(came.Trailer).map(([name, values]) => [`Back-${name}`, values[0]]);
    response.addTrailers({'X-Announced': 'yes', ...Object.fromEntries(back)});
    response.end();
  } else {
    const text = JSON.stringify(await look(request)) + '\n';
    response.setHeader('Content-Type', 'application/json');
    if (protocol === 'http1') response.setHeader('Content-Length', Buffer.byteLength(text));
    response.end(text);
  }
}

// ---- Websockets. The path selects an action, which begins with the first message.

const stalled = [];

const actions = {
  '/websocket': (socket, data, binary) => socket.send(data, {binary}),
  '/close': (socket, data, binary, query) => socket.close(Number(query.get('code')), query.get('reason')),
  '/end': (socket, data, binary, query, stream) => stream.end(),
  '/destroy': (socket, data, binary, query, stream) => protocol === 'http2' ?
      stream.close(http2.constants.NGHTTP2_CANCEL) : secret ? stream.destroy() : stream.resetAndDestroy(),
  '/ping': (socket, data) => {
    socket.once('pong', payload => socket.send(`ponged ${payload}`));
    socket.ping(data);
  },
  // Returns the message in frames of the given number of bytes.
  '/fragments': (socket, data, binary, query) => {
    const size = Number(query.get('bytes'));
    for (let at = 0; at < data.length; at += size)
      socket.send(data.subarray(at, at + size), {binary, fin: at + size >= data.length});
  },
  // Reads nothing more until a request for '/resume'; then reports when all bytes have arrived.
  '/stall': (socket, data, binary, query) => {
    if (!binary) return stalled.push(socket), socket.pause();
    socket.total = (socket.total ?? 0) + data.length;
    if (socket.total === Number(query.get('bytes'))) socket.send(`${socket.total} bytes`);
  },
  '/resume': () => stalled.splice(0).forEach(socket => socket.resume()),
  // The given number of messages, as fast as possible.
  '/flood': (socket, data, binary, query) => {
    for (let i = 0; i < Number(query.get('count')); ++i) socket.send(`${i}`.padEnd(i * 37 % 5000));
  },
};

function welcome(socket, stream, url) {
  const {pathname, searchParams} = new URL(url, 'http://any');
  socket.on('message', (data, binary) => actions[pathname](socket, data, binary, searchParams, stream));
  socket.on('error', () => {});
  socket.on('close', (code, reason) => printJSON({Path: pathname, Code: code, Reason: `${reason}`}));
}

function upgrade(server) {
  const sockets = new WebSocketServer({...limits, noServer: true, perMessageDeflate: true,
      handleProtocols: offered => offered.has('second') && 'second'});
  server.on('upgrade', (request, stream, head) => {
    stream.on('error', () => {});
    if (request.url.startsWith('/forbidden'))
      return stream.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 4\r\n\r\nno!\n');
    sockets.handleUpgrade(request, stream, head, socket => welcome(socket, stream, request.url));
  });
}

function connect(server) {
  server.on('connect', () => {}); // Otherwise Node responds with 405.
  server.on('stream', (stream, headers) => {
    stream.on('error', () => {});
    if (headers[':method'] !== 'CONNECT') return; // Handled by `serve`.
    if (headers[':protocol'] !== 'websocket' || headers[':path'].startsWith('/forbidden')) {
      stream.respond({':status': 403});
      return stream.end('no!\n');
    }
    const offered = `${headers['sec-websocket-protocol'] ?? ''}`.split(',').map(name => name.trim());
    stream.respond({':status': 200, ...offered.includes('second') && {'sec-websocket-protocol': 'second'}});
    welcome(overStream(stream, true), stream, headers[':path']);
  });
}

let server;
if (protocol === 'http1') {
  server = secret ? https.createServer(secret) : http.createServer();
  upgrade(server);
} else {
  const settings = {enableConnectProtocol: true, maxConcurrentStreams: 1000};
  const options = {settings, maxSessionMemory: 1000}; // In MB: waiting streams must not block others.
  server = secret ? http2.createSecureServer({...secret, ...options}) : http2.createServer(options);
  connect(server);
}
let accepted = 0;
server.on(secret ? 'secureConnection' : 'connection', socket => socket.number = ++accepted);
server.on('request', (request, response) => serve(request, response).catch(() => response.destroy()));
server.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${server.address().port}`));
