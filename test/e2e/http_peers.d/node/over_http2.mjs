// Websockets of the package `ws` over a stream of HTTP/2 (RFC 8441): `ws` does the frames, and Node the streams.
import WebSocket from 'ws';

// The limits of a client and a server, over either version.
export const limits = {allowSynchronousEvents: true, maxPayload: 64 << 20, maxFragments: 1 << 20, maxBufferedChunks: 1 << 20};

export function overStream(stream, isServer) {
  const socket = new WebSocket(null, undefined, {autoPong: true, maxPendingAutoPongs: 1 << 20, closeTimeout: 5000});
  socket._isServer = isServer;
  socket.setSocket(stream, Buffer.alloc(0), limits);
  return socket;
}
