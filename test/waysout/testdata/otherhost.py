"""Act as another host: listen on all addresses of a separate network, which the test connects to the machine."""

import socket
import subprocess
import sys
import threading

print("begun", flush=True)
gateway, own, internet = sys.stdin.readline().split()  # the test sends the addresses once the network is connected
for args in (
    ["addr", "add", own + "/30", "dev", "cable"],
    ["link", "set", "lo", "up"],
    ["addr", "add", internet + "/32", "dev", "lo"],
    ["link", "set", "cable", "up"],
    ["route", "add", "default", "via", gateway],
):
    subprocess.run(["ip", *args], check=True)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("0.0.0.0", 53))


def look_up():
    """Act as a name server: send each question back as the answer."""
    while True:
        question, sender = names.recvfrom(512)
        names.sendto(question, sender)


threading.Thread(target=look_up, daemon=True).start()
server = socket.create_server(("0.0.0.0", 443))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.close()
