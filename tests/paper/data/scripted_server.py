"""A server on this machine whose answers are scripted."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = b"1 2 3 4 5 6 7\n2 3 4 5 6 7 8\n"
"""As yacht_hydrodynamics.data: six features and a target."""
Answer = Callable[[BaseHTTPRequestHandler], None]


def whole(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Length", str(len(CONTENT)))
    request.end_headers()
    request.wfile.write(CONTENT)


def cut(request: BaseHTTPRequestHandler) -> None:
    """The head promises more than comes."""
    request.send_response(200)
    request.send_header("Content-Length", str(len(CONTENT)))
    request.end_headers()
    request.wfile.write(CONTENT[:20])


def refused(code: int) -> Answer:
    return lambda request: request.send_error(code)


class Server:
    """Answers the n-th request with the n-th of its answers, and all later ones with the last."""

    def __init__(self) -> None:
        self.answers: list[Answer] = [whole]
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests += 1
                outer.answers[min(outer.requests, len(outer.answers)) - 1](self)

            def log_message(self, *_: object) -> None:
                """Be silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/yacht_hydrodynamics.data"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
