"""The pictures of a fit's page, each of which can be drawn by itself, in any process."""

from collections.abc import Iterator, Sequence

from tfperf.workloads.pdf.results.flavours import FLAVOURS, to_flavours
from tfperf.workloads.pdf.results.record import EVOLUTION, DatasetResult, FitResult

Picture = tuple[str, ...]  # what is drawn, and of what
CHI2, LOSSES = ("chi2",), ("losses",)
BASES, SCALES = ("evolution", "flavour"), ("log", "linear")
PANELS = {CHI2: 2, LOSSES: 6}


def pdfs(basis: str, scale: str) -> Picture:
    """PDFs in a basis of BASES with an x axis of SCALES."""
    return ("pdfs", basis, scale)


def data(experiment: str) -> Picture:
    """The datasets of an experiment."""
    return ("data", experiment)


def pictures(result: FitResult) -> list[Picture]:
    """All pictures of a page; those that take longest to draw, which have most panels, come first."""
    panels = {data(experiment): len(sets) for experiment, sets in by_experiment(result.datasets)}
    panels |= {pdfs(basis, scale): len(EVOLUTION) for basis in BASES for scale in SCALES} | PANELS
    return sorted(panels, key=lambda picture: -panels[picture])


def by_experiment(datasets: Sequence[DatasetResult]) -> Iterator[tuple[str, list[DatasetResult]]]:
    """Experiments in the order of their first set, with their sets."""
    for experiment in dict.fromkeys(d.experiment for d in datasets):
        yield experiment, [d for d in datasets if d.experiment == experiment]


def draw(result: FitResult, picture: Picture) -> bytes:
    """A picture of the page as a PNG file, in the style that is set; the same bytes in any process."""
    # Matplotlib takes half a second to import: only who draws waits for it
    from tfperf.report.style import to_png
    from tfperf.workloads.pdf.report.plots_chi2 import chi2_figure, loss_figure
    from tfperf.workloads.pdf.report.plots_data import data_figure
    from tfperf.workloads.pdf.report.plots_pdf import pdf_figure

    match picture:
        case ("chi2",):
            figure = chi2_figure(result)
        case ("losses",):
            figure = loss_figure(result)
        case ("pdfs", "evolution", scale):
            figure = pdf_figure(result, result.pdf, EVOLUTION, scale)
        case ("pdfs", "flavour", scale):
            figure = pdf_figure(result, to_flavours(result.pdf), FLAVOURS, scale)
        case ("data", experiment):
            figure = data_figure(dict(by_experiment(result.datasets))[experiment], result.converged)
        case _:
            raise ValueError(f"no such picture: {picture}")
    return to_png(figure)
