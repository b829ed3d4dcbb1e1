"""The pictures of a fit's page, each of which can be drawn by itself, in any process."""

from collections.abc import Iterator, Sequence

from tfperf.workloads.pdf.results.flavours import FLAVOURS, to_flavours
from tfperf.workloads.pdf.results.record import EVOLUTION, DatasetResult, FitResult

PictureKey = tuple[str, ...]  # what is drawn, and of what
CHI2, LOSSES = ("chi2",), ("losses",)
BASES, SCALES = ("evolution", "flavour"), ("log", "linear")
PANELS = {CHI2: 2, LOSSES: 6}


def make_pdf_key(basis: str, scale: str) -> PictureKey:
    """PDFs in a basis of BASES with an x axis of SCALES."""
    return ("pdfs", basis, scale)


def make_data_key(experiment: str) -> PictureKey:
    """The datasets of an experiment."""
    return ("data", experiment)


def list_pictures(result: FitResult) -> list[PictureKey]:
    """All pictures of a page; those that take longest to draw, which have most panels, come first."""
    panels = {make_data_key(experiment): len(sets) for experiment, sets in group_by_experiment(result.datasets)}
    panels |= {make_pdf_key(basis, scale): len(EVOLUTION) for basis in BASES for scale in SCALES} | PANELS
    return sorted(panels, key=lambda picture: -panels[picture])


def group_by_experiment(datasets: Sequence[DatasetResult]) -> Iterator[tuple[str, list[DatasetResult]]]:
    """Experiments in the order of their first set, with their sets."""
    for experiment in dict.fromkeys(d.experiment for d in datasets):
        yield experiment, [d for d in datasets if d.experiment == experiment]


def draw(result: FitResult, picture: PictureKey) -> bytes:
    """A picture of the page as a PNG file, in the style that is set; the same bytes in any process."""
    # Matplotlib takes half a second to import: only who draws waits for it
    from tfperf.report.style import to_png
    from tfperf.workloads.pdf.report.plots_chi2 import draw_chi2, draw_losses
    from tfperf.workloads.pdf.report.plots_data import draw_data
    from tfperf.workloads.pdf.report.plots_pdf import draw_pdfs

    match picture:
        case ("chi2",):
            figure = draw_chi2(result)
        case ("losses",):
            figure = draw_losses(result)
        case ("pdfs", "evolution", scale):
            figure = draw_pdfs(result, result.pdf, EVOLUTION, scale)
        case ("pdfs", "flavour", scale):
            figure = draw_pdfs(result, to_flavours(result.pdf), FLAVOURS, scale)
        case ("data", experiment):
            figure = draw_data(dict(group_by_experiment(result.datasets))[experiment], result.selected)
        case _:
            raise ValueError(f"no such picture: {picture}")
    return to_png(figure)
