"""The origin of those who wait for one another: slow_origin.py PORT SECONDS SIZE answers each GET after a pause."""

import asyncio
import sys

port, pause, size = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
ANSWER = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: max-age=3600\r\n\r\n".encode() + bytes(size)


async def serve(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(pause)
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    async with await asyncio.start_server(serve, "127.0.0.1", port) as server:
        await server.serve_forever()


asyncio.run(main())
