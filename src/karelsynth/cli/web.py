"""The command about the playground: serve."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from karelsynth.cli.show import chosen_device, console, loading

_CORES: Final = 4
"""That one search makes good use of."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(serve)


def serve(
    model: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="A folder with a trained model; `shipped`, the package's, if not given."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; by default only this machine can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any that is free.")] = 8000,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="How many searches run at once; by default one per four cores."),
    ] = None,
    queue: Annotated[int, typer.Option(min=0, max=10_000, help="How many requests may wait; more are refused.")] = 32,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
) -> None:
    """Serve the playground: the page and the HTTP interface behind it. Ctrl-C stops it."""
    from karelsynth.karel.threads import core_count
    from karelsynth.web.server import address_of, is_loopback, listen, network_address_of, serve

    with listen(host, port) as listener:  # first: to load a model only to learn that the port is taken is no fun
        from karelsynth.model.pretrained import SHIPPED
        from karelsynth.solve.solver import Solver
        from karelsynth.web.app import LOOPBACK, ServiceSettings, create_app

        at_once = workers or max(1, core_count() // _CORES)
        settings = ServiceSettings(
            workers=at_once,
            queue=queue,
            hosts=LOOPBACK | {host.lower(), listener.getsockname()[0]} if is_loopback(listener) else None,
            model=Path(model or SHIPPED).name,
        )
        if at_once > 1:
            _share_cores(core_count() // at_once)
        with loading():
            solver = Solver.load(model, device=chosen_device(device))
            solver.warm_up()  # before the first visitor comes
        address, in_network = address_of(listener), network_address_of(listener)

        def ready() -> None:
            out = console()
            out.print(f"karelsynth is ready at {address} (Ctrl-C stops it)", soft_wrap=True)
            if in_network is not None and in_network != address:
                out.print(f"from other machines: {in_network}", soft_wrap=True)
            if not is_loopback(listener):
                warning = "everyone who can reach this machine can use it: there are no accounts and no encryption"
                out.print(warning, style="yellow", soft_wrap=True)
            if open_page:
                import webbrowser

                webbrowser.open(address)

        serve(create_app(solver, settings), listener, ready)


def _share_cores(each: int) -> None:
    """Hold every search to its share: more threads than cores spend their time waiting for each other."""
    import torch

    torch.set_num_threads(max(1, min(each, torch.get_num_threads())))
