"""Tables of data to models with calibrated uncertainty: ``whvi fit`` and ``whvi predict``. Behind the extra ``tables``.

It depends on ``whvi``, never the reverse, and adds its commands by an entry point.

A table (``reading``) has columns, which become numbers (``fields``, ``kinds``, ``columns``), and a target, which says
what is to be predicted (``task``). A part of the rows trains a model (``fitting``), the others judge it (``judging``,
``report``). It lives in a folder (``folder``) and predicts new rows (``predicting``). ``settings`` and ``commands`` are
the ways in.
"""
