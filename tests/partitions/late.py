"""Holds packets back: each packet of a netfilter queue goes on so many milliseconds after it came, in order, by the
kernel's own verdict. For tests where the kernel has no netem. Changes no packet and drops none.

usage: nsenter --net=/run/netns/NAME python3 late.py MILLISECONDS     (as root; iptables ... -j NFQUEUE --queue-num 0)
Says "holding" once the queue is its own. A queue without its program drops what comes, so end it after the rule."""

import collections
import os
import select
import socket
import struct
import sys
import time

QUEUE_CONFIG, QUEUE_VERDICT, QUEUE_PACKET = 0x302, 0x301, 0x300
NFQA_VERDICT_HDR, NFQA_PACKET_HDR = 2, 1
NFQA_CFG_CMD, NFQA_CFG_PARAMS, NFQA_CFG_QUEUE_MAXLEN, NFQA_CFG_MASK, NFQA_CFG_FLAGS = 1, 2, 3, 4, 5
# Large segments come as one packet.
WHOLE_SEGMENTS = 1 << 2
BIND, COPY_NOTHING, ACCEPT = 1, 1, 1


def attribute(kind, data):
    size = 4 + len(data)
    return struct.pack("=HH", size, kind) + data + b"\0" * (-size % 4)


def message(kind, data):
    body = struct.pack("!BBH", socket.AF_UNSPEC, 0, 0) + data
    return struct.pack("=IHHII", 16 + len(body), kind, 1, 0, 0) + body


def packets(data):
    """The ids of all packets that one read brought."""
    while len(data) >= 16:
        size, kind = struct.unpack_from("=IH", data)
        if kind == QUEUE_PACKET:
            at = 20
            while at + 4 <= size:
                length, name = struct.unpack_from("=HH", data, at)
                if name & 0x3FFF == NFQA_PACKET_HDR:
                    yield struct.unpack_from("!I", data, at + 4)[0]
                at += max(4, length + -length % 4)
        data = data[max(16, size + -size % 4):]


def main(late):
    queue = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)
    queue.bind((0, 0))
    queue.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    # What does not fit into the buffer is lost, as on any wire; that is no error of ours.
    queue.setsockopt(270, 5, 1)
    command = struct.pack("!BBH", BIND, 0, socket.AF_INET)
    queue.send(message(QUEUE_CONFIG, attribute(NFQA_CFG_CMD, command)))
    queue.send(message(QUEUE_CONFIG, attribute(NFQA_CFG_PARAMS, struct.pack("!IB", 0, COPY_NOTHING))))
    queue.send(message(QUEUE_CONFIG, attribute(NFQA_CFG_QUEUE_MAXLEN, struct.pack("!I", 65535))))
    flags = struct.pack("!I", WHOLE_SEGMENTS)
    queue.send(message(QUEUE_CONFIG, attribute(NFQA_CFG_MASK, flags) + attribute(NFQA_CFG_FLAGS, flags)))
    print("holding", flush=True)
    waiting = collections.deque()
    while True:
        pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if select.select([queue], [], [], pause)[0]:
            now = time.monotonic()
            waiting.extend((now + late, one) for one in packets(queue.recv(1 << 20)))
        while waiting and waiting[0][0] <= time.monotonic():
            verdict = struct.pack("!II", ACCEPT, waiting.popleft()[1])
            queue.send(message(QUEUE_VERDICT, attribute(NFQA_VERDICT_HDR, verdict)))


if __name__ == "__main__":
    if os.getppid() == 0 or len(sys.argv) != 2:
        sys.exit(__doc__)
    main(float(sys.argv[1]) / 1000)
