"""The report: a static site from any Records, which opens from the disk, offline.

    Records -> tables.py (what each table shows) and charts -> site.py -> pages, data in parts, assets

Nothing here computes a figure: it shows what Records, comparisons and the audit say.
"""
