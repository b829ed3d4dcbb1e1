"""The optimisations of a replica fit in the order in which an ablation turns them on."""

from tfperf.runcard.keys import Tree, get
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.inputs import read_inputs
from tfperf.workloads.pdf.runners import refuse_untimable
from tfperf.workloads.switches import Switch, Switches

NAIVE_SAYS = "one Keras model per replica, `fit` with one step an epoch, boolean masks, padded tables"
STACKED_SAYS = "replicas as one batch; masks as weights; training, validation and penalties from one forward pass"
CHECKED = 3  # replicas whose losses are compared
# what `auto` stands for, where the card leaves it to a measurement -> its name among the choices
DECIDED = {
    "engine.form": "form", "engine.products": "products", "engine.xla": "xla", "train.steps_per_call": "steps_per_call",
}  # fmt: skip
# Another optimisation takes another line. The order is that of the cumulative series.
SWITCHES = (
    Switch(
        "quadrature", "Gauss nodes instead of 2000 trapezoids in the sum rules",
        {"model.sum_rules.quadrature": "trapezoid"}, changes_results=True,
    ),
    Switch("products", "only the flavours and grid nodes that predictions use", {"engine.products": "padded"}),
    Switch("steps_per_call", "many steps in one compiled call, the host looks on now and then",
           {"train.steps_per_call": 1}),
    Switch("xla", "compiled with XLA", {"engine.xla": False}),
    Switch("stacks", "stacks of about ten replicas, one for each thread at the same time", {"engine.stacks": 1}),
    Switch("form", "points, masks and covariance folded into one small matrix for each replica",
           {"engine.form": "shared"}),
    Switch("tolerance", "a reduced basis of PDFs, within the card's tolerance; a fit's checks of it lie between calls",
           {"engine.tolerance": 0.0}, only_with={"engine.form": "folded"}),
)  # fmt: skip
# what no series of single steps can show
NOT_A_STEP = {"retirement": "replicas that have stopped leave the stack: it shortens a whole fit, not the first steps"}


class FitSwitches(Switches):
    """Those of a replica fit."""

    def get_tolerance(self, card: Tree) -> float:
        """By how much chi2 per point may be off in a form of the card; other forms than `folded` are exact."""
        return float(get(card, "engine.tolerance")) if get(card, "engine.form") == "folded" else 0.0


def make_switches(card: Card) -> Switches:
    """What an ablation of the card needs. Raises: UserError for faults of its files, and for what trains first."""
    refuse_untimable(card, "an ablation")
    replicas, precision = len(card.replicas), card.engine.precision
    return FitSwitches(
        switches=SWITCHES, hashes=read_inputs(card).hashes, naive=NAIVE_SAYS, bare=("stacked", STACKED_SAYS),
        not_steps=NOT_A_STEP, decided=tuple(DECIDED), checked=card.replicas[:CHECKED],
        figures={"replicas": replicas, "precision": precision}, setting=f"{replicas} replicas, {precision}",
    )  # fmt: skip
