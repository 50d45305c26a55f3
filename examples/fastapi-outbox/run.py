"""Serve the shop, order two books of which one is left, and wait for the parcel's label."""

import os
import socket
import threading
import time

import httpx
import uvicorn
from celeriac.testing import DatabaseServer, copied


def main() -> None:
    with DatabaseServer() as server, copied(server.url) as url:
        os.environ["SHOP_DATABASE_URL"] = url.replace("postgresql://", "postgresql+psycopg://", 1)
        import shop

        with shop.sessions.begin() as session:
            shop.Model.metadata.create_all(session.connection())
            session.add(shop.Item(name="book", stock=1))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            api = uvicorn.Server(uvicorn.Config(shop.app, log_level="warning"))
            serving = threading.Thread(target=api.run, kwargs={"sockets": [listening]})
            serving.start()
            host, port = listening.getsockname()
            with httpx.Client(base_url=f"http://{host}:{port}", timeout=30) as client:
                order(client)
            api.should_exit = True
            serving.join()
        with shop.sessions() as session:
            print(f"in the database: {session.query(shop.Order).count()} order")


def order(client: httpx.Client) -> None:
    first, second = (client.post("/orders", json={"item": "book"}) for _ in range(2))
    print(f"first order:     {first.status_code} {first.json()}")
    print(f"second order:    {second.status_code} {second.json()}")
    placed = first.json()
    while not placed["label"]:
        time.sleep(0.05)
        placed = client.get(f"/orders/{placed['id']}").json()
    print(f"a moment later:  {placed}", flush=True)


if __name__ == "__main__":
    main()
