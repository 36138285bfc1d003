"""Agent frameworks that keep their sessions in clew: a module or a folder for each, imported only with its framework.

Shared by several: keyed, transcripts, threads, documents, lists, assembling, recorder.
"""
