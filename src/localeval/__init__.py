"""Evaluate retrieval over your own documents: honestly, offline, on your own machine.

Groups of modules, in the order to read them; what a group may import is in `tests/test_architecture.py`:

base        records, provenance, tokens, child, replies, gguf
reading     corpus, layout, pdfchild, pagecache, pdf, scans, quality, ocr, rapid, engines, converters, calibration
engines     chunking, embedding, onnxmodel, packaged, vectors, approximate, retrieval, lexical, learned, rerank,
            crossencoder, preview, pointwise
labels      gold, strata, drafting, judgements, grading, metrics, trec, holes
tables      tables, systems, sweep, arms, twins, damage, depth, pricing
statistics  stats, clusters, equivalence, ranking, recommend, sequential, simulation, published, planning
answers     abstention, certainty, endpoint, prompts, generation, answering, groundedness, handcheck
gates       gate, baseline, gatereport, leaderboard
report      figures, pagefigures, statfigures, pricefigures, damagefigures, answerfigures, report, views, stattables,
            pricetables, answertables, damagetables, build, book, commands, cli
"""

import os

# ONNX Runtime reads it when it is loaded; without it, it looks up a host of its maker.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

__version__ = "0.1.0"
