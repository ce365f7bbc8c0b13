"""Evaluate retrieval over your own documents: honestly, offline, on your own machine.

Read the modules in this order: records, tables, provenance, corpus, pdf, quality, chunking, tokens, embedding,
retrieval, rerank, gold, drafting, grading, metrics, sweep, stats, decisions, report, build, book, cli.
"""

__version__ = "0.1.0"
