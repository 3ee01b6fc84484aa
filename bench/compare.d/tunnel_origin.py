"""An origin of websockets: accepts every upgrade, then echoes all data. Run as tunnel_origin.py HOST PORT."""
import asyncio, base64, contextlib, hashlib, re, sys

GUID = b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11'         # RFC 6455 section 1.3


def upgraded(head):
    key = re.search(rb'(?i)\r\nsec-websocket-key: *(\S+)', head)
    if not key: return b'HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n'
    return (b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
            b'Sec-WebSocket-Accept: ' + base64.b64encode(hashlib.sha1(key[1] + GUID).digest()) + b'\r\n\r\n')


async def serve(reader, writer):
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        writer.write(upgraded(await reader.readuntil(b'\r\n\r\n')))
        while data := await reader.read(65536): writer.write(data)
    writer.close()


async def main(host, port):
    server = await asyncio.start_server(serve, host, port, backlog=4096)
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
