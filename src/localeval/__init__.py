"""Evaluate retrieval over your own documents: honestly, offline, on your own machine.

Read the modules in this order: records, provenance, corpus, layout, child, pdfchild, pagecache, pdf, scans, quality, ocr,
rapid, engines, converters, calibration, tokens, chunking, embedding, onnxmodel, packaged, vectors, retrieval, lexical,
learned, rerank, gold, drafting, grading, metrics, judgements, holes, trec, stats, decisions, depth, tables, sweep, twins, damage, figures,
report, views, build, book, commands, cli.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = (
    "1"  # ONNX Runtime reads it when it is loaded; without it, it looks up a host of its maker
)

__version__ = "0.1.0"
