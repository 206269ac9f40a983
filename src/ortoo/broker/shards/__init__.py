"""Several stores behind one link: each has a broker of its own, and a topic lies in one of them.

routing    model/shards.py: where a topic lies, by its name or its id
identity   what a store keeps of the shard that it is, so that a queue is never split by mistake
shards     the link: commands and leases go to the broker they are about
calling    commands about several shards: which are split, which are told to all, and which are refused
asking     queries about several: asked of all, and put together
"""

from .shards import Shards as Shards
