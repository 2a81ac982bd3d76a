# SPDX-License-Identifier: Apache-2.0
"""This process' connection to `hipress run --elastic`, through which it gets its place in each world."""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from hipress.errors import CorruptPayload, HipressError, InvalidArgument, PeerLost, Timeout, Unsupported
from hipress.launch.rendezvous.place import Rendezvous
from hipress.launch.rendezvous.variables import Variables
from hipress.launch.worlds.messages import Lines, Message, encoded, keep_alive, proof
from hipress.log import logger

#: The launcher's address, and the number of this process in the job.
ADDRESS, NUMBER, TIMEOUT = "HIPRESS_ELASTIC", "HIPRESS_ELASTIC_PROCESS", "HIPRESS_ELASTIC_TIMEOUT"
SOURCE = "hipress run --elastic"
#: Seconds for the launcher's first words.
_GREETING = 30.0
_RECEIVED_AT_ONCE = 1 << 16

_Answer = TypeVar("_Answer")
_Answers: TypeAlias = queue.SimpleQueue[_Answer | HipressError | SystemExit]
_EXPECTED = "host:port with a port from 1 to 65535, as hipress run --elastic sets it"


class Seat:
    """The connection. Its thread answers the launcher while the program computes.

    Raises PeerLost if the launcher cannot be reached, CorruptPayload if it is none.
    """

    def __init__(self, address: tuple[str, int], number: int, token: str, patience: float) -> None:
        self.number = number
        """The number of this process in the job, which stays when ranks change."""
        self.world = 0
        """The number of the last world in which this process had a place."""
        self.has_met = False
        """Whether the ranks of this world have come to their training functions."""
        self.commits = 0
        """How many commits this process has made or got: rank 0 of the next world is one with the most."""
        self.why = ""
        """Why it asks for another place, for the launcher's report."""
        self.news = 0.0
        """When it heard that processes wait to come into this world, or that one is to leave it: seconds since 1970.
        0: it has not heard so.
        """
        self._user = ""  # what brings this process into the next worlds
        #: Called, with the reason, when the world of this process is over: init() must not wait for it any longer.
        self.when_over: Callable[[str], None] = lambda _why: None
        self._token, self._patience = token, patience
        self._over = ""  # why the world is over
        self._places: _Answers[Rendezvous] = queue.SimpleQueue()
        self._answers: _Answers[Message] = queue.SimpleQueue()  # of "here"
        self._served: tuple[int, socket.socket] | None = None
        self._lines = Lines()
        self._sending = threading.Lock()
        try:
            self._socket = socket.create_connection(address, _GREETING)
            nonce = str(self._receive()[0]["nonce"])
            self._send({"number": number, "proof": proof(token, nonce)})
        except (OSError, CorruptPayload, KeyError) as error:
            raise PeerLost(f"hipress run does not answer at {ADDRESS}={address[0]}:{address[1]}: {error}") from error
        self._socket.settimeout(None)
        keep_alive(self._socket)
        self._thread = threading.Thread(target=self._listen, name="hipress-elastic", daemon=True)
        self._thread.start()
        os.register_at_fork(after_in_child=self._socket.close)  # a child would hold it open after this process' end

    def use(self, user: str, *, repeats: bool = False) -> None:
        """From now on `user` brings this process into the next worlds; `repeats`: it may call this again.

        Raises Unsupported if another one does.
        """
        if self._user and not (repeats and self._user == user):
            raise Unsupported(
                f"{user} cannot bring this process of an elastic job into its next world, because {self._user} does: "
                "an elastic job has either hipress.elastic.run() or one DiLoCo()"
            )
        self._user = user

    def next_place(self) -> Rendezvous:
        """Waits for the next world, and returns this process' place in it.

        Raises Timeout if there is none, PeerLost if the launcher has gone, SystemExit if this process is to leave.
        """
        self._send({"kind": "ask", "world": self.world, "commits": self.commits, "why": self.why})
        self.why = ""
        return self._awaited(self._places)

    def is_here(self, terms: Sequence[float] | None) -> list[int] | None:
        """Says that this rank has come to an exchange, and waits for the others of its world.

        `terms`: of RoundTerms; None: this rank's training has ended. Returns None if the exchange begins. Otherwise
        there is to be another world, and the result lists the ranks that were late. Raises as next_place().
        """
        self._send({"kind": "here", "world": self.world, "terms": terms})
        answer = self._awaited(self._answers)
        return list(answer["late"]) if answer["room"] else None

    def is_over(self, world: int) -> str:
        """Why this world is over; empty: as far as this process has heard, it is not."""
        return self._over if world == self.world else "a later world has begun"

    def finish(self) -> None:
        """The training has ended well."""
        self._send({"kind": "finished"})

    def _awaited(self, answers: _Answers[_Answer]) -> _Answer:
        try:
            # The launcher has the deadline, and says why. It ends this process, too.
            answer = answers.get(timeout=self._patience)
        except queue.Empty:
            raise Timeout(f"hipress run has not answered process {self.number} in {self._patience:g} s") from None
        if isinstance(answer, BaseException):
            answers.put(answer)  # for every later question
            raise answer
        return answer

    def _send(self, message: Message) -> None:
        try:
            with self._sending:
                self._socket.sendall(encoded(message))
        except OSError as error:
            raise PeerLost(f"process {self.number} has no connection to hipress run any more: {error}") from error

    def _receive(self) -> list[Message]:
        messages: list[Message] = []
        while not messages:
            received = self._socket.recv(_RECEIVED_AT_ONCE)
            if not received:
                raise ConnectionError("it has closed the connection")
            messages = self._lines.add(received)
        return messages

    def _listen(self) -> None:
        try:
            while True:
                for message in self._receive():
                    self._take(message)
        except (OSError, HipressError, KeyError, TypeError, ValueError) as error:
            lost = PeerLost(f"process {self.number} has lost its connection to hipress run: {error}")
            self._places.put(lost)
            self._answers.put(lost)

    def _take(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "ping":
            self._send({"kind": "alive"})
        elif kind == "lead":
            self._serve(int(message["world"]), everywhere=bool(message["everywhere"]))
        elif kind == "place":
            self._places.put(self._placed(message))
        elif kind == "over" and message["world"] == self.world:
            self._over = str(message["why"])
            self.when_over(self._over)
        elif kind == "news" and message["world"] == self.world:
            self.news = time.time()
        elif kind == "go":
            self._answers.put(message)
        elif kind == "end":
            logger().info(f"process {self.number} leaves the job: {message['why']}")
            self._places.put(SystemExit(0))

    def _serve(self, world: int, *, everywhere: bool) -> None:
        """Listens as rank 0 of the next world, for processes of this host only or for all."""
        host = "" if everywhere else self._socket.getsockname()[0]
        if self._served is not None:
            self._served[1].close()
        self._served = world, socket.create_server((host, 0), backlog=1024)
        self._send({"kind": "serves", "world": world, "port": self._served[1].getsockname()[1]})

    def _placed(self, message: Message) -> Rendezvous:
        listener, self._served = self._served, None
        listen_fd = None
        if listener is not None:
            if listener[0] == message["world"]:
                listen_fd = listener[1].detach()
            else:
                listener[1].close()
        self.world, self._over, self.news = int(message["world"]), "", 0.0
        self.has_met = False
        return Rendezvous(
            int(message["rank"]),
            int(message["size"]),
            int(message["local_rank"]),
            int(message["local_size"]),
            str(message["host"]),
            int(message["port"]),
            listen_fd,
            # Each world has a secret of its own: a rank of an earlier one is a stranger.
            proof(self._token, f"world {self.world}"),
            source=SOURCE,
            world=self.world,
        )


_lock = threading.Lock()
_seat: Seat | None = None


def seat() -> Seat | None:
    """This process' connection to the launcher of an elastic job; None before init(), and in other jobs."""
    return _seat


def seat_in(environ: Mapping[str, str]) -> Seat:
    """This process' connection, which the first call makes. Raises InvalidArgument, PeerLost."""
    global _seat
    with _lock:
        if _seat is None:
            variables = Variables(SOURCE, environ)
            host, _, port = variables.text(ADDRESS, _EXPECTED).rpartition(":")
            if not host or not (port.isascii() and port.isdigit()) or not 1 <= int(port) <= 65535:
                raise variables.bad(ADDRESS, _EXPECTED)
            number = variables.integer(NUMBER, 0, None, "the number of this process in the job")
            token = variables.text("HIPRESS_JOB_TOKEN", "the job's secret, the same text on every rank")
            _seat = Seat((host, int(port)), number, token, _patience(environ))
        return _seat


def _patience(environ: Mapping[str, str]) -> float:
    text = environ.get(TIMEOUT, "600")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise InvalidArgument(f"{TIMEOUT}={text}: expected a number of seconds above 0")
    return 2 * seconds + _GREETING  # the launcher's own deadline is shorter, and its error says more
