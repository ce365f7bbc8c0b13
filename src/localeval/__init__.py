"""Evaluate retrieval over your own documents: honestly, offline, on your own machine.

Read the modules in this order: records, provenance, corpus, layout, child, pdf, scans, quality, ocr, rapid, engines, tokens,
chunking, embedding, onnxmodel, retrieval, rerank, gold, drafting, grading, metrics, trec, stats, decisions, tables,
sweep, twins, damage, figures, report, views, build, book, commands, cli.
"""

__version__ = "0.1.0"
