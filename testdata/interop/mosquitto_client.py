"""mosquitto_pub and mosquitto_sub as processes."""

import queue
import subprocess
import threading

import checks

V3, V5 = "mqttv311", "mqttv5"
ADDRESS = ["-h", checks.MQTT[0], "-p", str(checks.MQTT[1])]


def publish(version, topic, payload, *args):
    """Returns when mosquitto_pub has ended well."""
    subprocess.run(["mosquitto_pub", *ADDRESS, "-V", version, "-t", topic, "-s", *args], input=payload, check=True,
                   timeout=checks.PATIENCE)


def clear(version, topic):
    subprocess.run(["mosquitto_pub", *ADDRESS, "-V", version, "-t", topic, "-n", "-r", "-q", "1"], check=True,
                   timeout=checks.PATIENCE)


class Subscriber:
    """A mosquitto_sub whose messages wait in a queue, each as the fields of a
    format; it is subscribed when the constructor returns."""

    def __init__(self, version, topic, *args, form="%t %q %r %p"):
        self.messages = queue.Queue()
        self.subscribed = threading.Event()
        self.process = subprocess.Popen(
            ["stdbuf", "-oL", "mosquitto_sub", *ADDRESS, "-V", version, "-t", topic, "-d", "-F", "MESSAGE " + form, *args],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()
        if not self.subscribed.wait(checks.PATIENCE):
            self.kill()
            raise AssertionError("mosquitto_sub did not subscribe to %s" % topic)

    def _read(self):
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line.startswith("MESSAGE "):
                self.messages.put(line[len("MESSAGE "):])
            elif line.startswith("Subscribed"):
                self.subscribed.set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def get(self):
        return self.messages.get(timeout=checks.PATIENCE)

    def nothing(self):
        try:
            m = self.messages.get(timeout=checks.QUIET)
        except queue.Empty:
            return
        raise AssertionError("%r came" % m)

    def stop(self):
        """Lets it say good-bye."""
        self.process.terminate()
        self._wait()

    def kill(self):
        self.process.kill()
        self._wait()

    def _wait(self):
        self.process.wait(checks.PATIENCE)
        self.reader.join(checks.PATIENCE)
        self.process.stdout.close()
