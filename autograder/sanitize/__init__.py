"""The one border of foreign text: names, lines, outputs, HTML and Markdown of students, bounded
and made harmless.
"""
