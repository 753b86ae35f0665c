from tlt_worker.engine.pump import Outlet


async def test_an_outlet_nobody_takes_from_says_what_it_drops_and_keeps_the_newest() -> None:
    dropped = []
    outlet: Outlet[int] = Outlet(2, on_drop=lambda: dropped.append(1))
    for item in range(5):
        outlet.put(item)
    kept = outlet.take()
    assert (len(dropped), await anext(kept), await anext(kept)) == (3, 3, 4)
