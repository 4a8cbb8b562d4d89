"""libcoap's coap-client as a process."""

import queue
import re
import subprocess
import tempfile
import threading

import checks

PROGRAM = "coap-client-notls"
ADDRESS = "coap://%s:%d" % checks.COAP


class Answer:
    def __init__(self, code, payload, log):
        self.code, self.payload, self.log = code, payload, log

    def location(self):
        """The Location-Path of the last answer that has one."""
        found = re.findall(r"Location-Path:([^,\]]*)", self.log)
        return "/" + "/".join(x.strip() for x in found)


def ask(method, path, payload=None, kind=None, *args):
    """Sends a request and returns its last answer. The code is what the log says
    of it, as 2.05."""
    with tempfile.NamedTemporaryFile() as sent, tempfile.NamedTemporaryFile() as got:
        command = [PROGRAM, "-v", "7", "-B", str(checks.PATIENCE), "-m", method, "-o", got.name]
        if payload is not None:
            sent.write(payload)
            sent.flush()
            command += ["-f", sent.name]
        if kind is not None:
            command += ["-t", str(kind)]
        log = subprocess.run([*command, *args, ADDRESS + path], check=True, timeout=2 * checks.PATIENCE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode(errors="replace")
        codes = re.findall(r"c:(\d\.\d\d)", log)
        return Answer(codes[-1] if codes else "none", got.read(), log)


class Observer:
    """A coap-client that observes; what it gets waits in a queue, a value with
    each line."""

    def __init__(self, path, seconds=30):
        self.values = queue.Queue()
        self.process = subprocess.Popen(["stdbuf", "-oL", PROGRAM, "-w", "-s", str(seconds), "-m", "get", ADDRESS + path],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.values.put(line.rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()

    def get(self):
        return self.values.get(timeout=checks.PATIENCE)


class Watcher:
    """A coap-client that observes, seen through its log: what it gets is (code,
    with Observe or not, payload)."""

    def __init__(self, path, seconds=60):
        self.lines, self.got = [], queue.Queue()
        self.process = subprocess.Popen(["stdbuf", "-oL", PROGRAM, "-v", "7", "-s", str(seconds), "-m", "get", ADDRESS + path],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            if not line.startswith("v:1 "):
                continue
            self.lines.append(line)
            found = re.match(r"v:1 t:(\w+) c:([245]\.\d\d) i:\w+ {\w*} \[(.*?)\](?: :: '(.*)')?", line)
            if found:
                self.got.put((found[2], "Observe:" in found[3], found[4] or ""))

    def next(self, patience=checks.PATIENCE):
        return self.got.get(timeout=patience)

    def kinds(self):
        """The types of the messages that it got."""
        return [m[1] for m in (re.match(r"v:1 t:(\w+) c:[245]\.", line) for line in self.lines) if m]

    def asked(self):
        """The Observe options that it sent; the log may have one twice."""
        return [int(m[1]) for m in (re.search(r"c:GET .*Observe:(\d+)", line) for line in self.lines) if m]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.reader.join()
