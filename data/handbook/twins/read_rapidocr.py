"""Reads images with RapidOCR, in the Python that has it: `degrade.py` and nothing else starts this.

In: images on standard input, each after its length in eight bytes. Out: one JSON line an image, {"seconds": processor time,
"width": of the image, "boxes": [[corners, text, confidence from 0 to 1], ...]}: four corners [x, y] from the top left one
clockwise, in dots, as `localeval.engines.in_order` takes them.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import time

THREADS = {
    "EngineConfig.onnxruntime.intra_op_num_threads": 1,
    "EngineConfig.onnxruntime.inter_op_num_threads": 1,
    "Global.log_level": "critical",
}


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        print("rapidocr", importlib.metadata.version("rapidocr"))
        return
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")  # the engine may print; only answers may reach the pipe
    os.dup2(2, 1)
    import cv2
    import numpy as np
    from rapidocr import RapidOCR

    cv2.setNumThreads(1)
    engine = RapidOCR(params=THREADS)
    while size := sys.stdin.buffer.read(8):
        data = sys.stdin.buffer.read(int.from_bytes(size, "big"))
        start = time.process_time()
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        read = engine(image)
        seconds = time.process_time() - start
        found = zip(read.boxes if read.txts else (), read.txts or (), read.scores or (), strict=True)
        boxes = [[[[float(x), float(y)] for x, y in corners], text, float(share)] for corners, text, share in found]
        answer = {"seconds": seconds, "width": image.shape[1], "boxes": boxes}
        out.write(json.dumps(answer, ensure_ascii=False) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
