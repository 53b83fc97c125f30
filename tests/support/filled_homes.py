"""A home on this machine with some files in it, to try what may not hurt them."""

import random

from tests.support.storages import OnThisMachine, new_home

from codehub.ports.storage import Home

FILES = {f"d{number % 7}/f{number}": random.Random(number).randbytes(60_000) for number in range(400)}


async def filled(machine: OnThisMachine) -> tuple[Home, str]:
    home = new_home()
    volume_id = await machine.provider.provision(home)
    machine.write(home, FILES)
    return home, volume_id
