"""What the center does not get to see: masked sums, and samples that only the parties can tell apart.

A masked sum of fixed-point arrays takes three calls, which any round of the protocol may use:
`keys.make_offer` at each party (a fresh key, signed), `sums.masked` at each party once it has everybody's offer, and
`sums.added` at the center. `ring.Ring` says how numbers become whole ones and back.
"""
