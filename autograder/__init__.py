"""The engine: releases, checks, grades and reports exercises. It knows nothing of attention."""
