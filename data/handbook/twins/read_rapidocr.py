"""Reads images with RapidOCR, in the Python that has it: `degrade.py` and nothing else starts this.

In: images on standard input, each after its length in eight bytes. Out: one JSON line an image, {"seconds": processor time,
"lines": [[[left, top, right, bottom], confidence from 0 to 1, text], ...]}, lengths in dots from the top left corner.
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


def level_box(corners) -> list[float]:
    """The box of a tilted line as if it were level: as high as the line itself, at the mean height of its two ends.

    The upright box around a long tilted line would reach into the lines above and below. corners: (x, y) from the top left
    one, clockwise.
    """
    (x0, y0), (x1, y1), (x2, y2), (x3, y3) = corners
    return [float((x0 + x3) / 2), float((y0 + y1) / 2), float((x1 + x2) / 2), float((y2 + y3) / 2)]


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
        found = engine(image)
        seconds = time.process_time() - start
        boxes = [] if found.boxes is None else found.boxes
        lines = [
            [level_box(box), float(share), text]
            for box, share, text in zip(boxes, found.scores or (), found.txts or (), strict=True)
        ]
        out.write(json.dumps({"seconds": seconds, "lines": lines}, ensure_ascii=False) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
