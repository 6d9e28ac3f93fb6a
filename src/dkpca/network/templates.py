"""Texts of the files people read, compare and edit."""

from collections.abc import Sequence

POLICY = """\
# What this party is willing to answer, whatever the center asks. These limits are a cautious start: change them to
# what was agreed, and delete the # of the others to set them too. Every key: 'A party's policy' in the documentation.

max_recovery = 0.5                # R² up to which somebody who knows some rows may recover a column of the others
known_rows = 30                   # how many they are taken to know
if_beyond = "lower"               # "lower": send less until it holds; "refuse": send nothing
max_rank = 40                     # most eigenpairs sent
min_samples = 100                 # fewest rows about which anything but new samples is sent
max_precision = "float32"         # finest numbers sent
projection = true                 # place new samples? false: never; "exact": also by distances, which tell all
max_fits = 5                      # most different summaries sent, ever; the ledger counts them
# kernels = ["rbf"]               # kernels answered
# laws = ["product"]              # how the center may say it combines the answers: product, sum
# protect = "sums"                # the one way in which it takes part: "none", "sums" or "blind"
# gamma = [0.001, 0.1]            # smallest and largest width answered; one value twice to fix it
"""


def consortium(name: str, host: str, port: int, parties: Sequence[str], local_port: int) -> str:
    """Return the center's record of its consortium."""
    roster = ", ".join(f'"{party}"' for party in parties)
    return f"""\
# The center's record of its consortium, written by 'dkpca consortium init'.
name = "{name}"
center = "{host}"
port = {port}
parties = [{roster}]
local_port = {local_port}  # page, health and metrics for this machine alone, without a certificate; 0: none
# max_answer = 4000000000  # bytes of one answer at most, where no smaller size follows from the question
"""


def invitation(name: str, party: str, host: str, port: int, ca: str) -> str:
    """Return what a party needs to know to join."""
    return f"""\
# An invitation. Nothing in it is secret, but it has to arrive unaltered:
# compare the fingerprint that 'dkpca party join' prints with the center, by phone.
consortium = "{name}"
party = "{party}"
center = "{host}"
port = {port}
ca = '''
{ca}'''
"""


def admission(name: str, party: str, certificate: str) -> str:
    """Return the center's answer to a request."""
    return f"""\
# An admission: the party's certificate. Nothing in it is secret. Install it with 'dkpca party admit'.
consortium = "{name}"
party = "{party}"
certificate = '''
{certificate}'''
"""


def party(name: str, table: str, id_column: str) -> str:
    """Return the party's own configuration, to be edited."""
    return f"""\
# What this party brings to the consortium. Only this file, on this machine, says so; the center cannot.
# Paths are relative to this folder.
party = "{name}"
table = "{_quoted(table or f"{name}.csv")}"  # .csv, .tsv, .parquet, .arrow, .npy or .npz
id = "{_quoted(id_column)}"  # column with the sample ids; "" if rows match by position
columns = []             # columns to use; [] for all
exclude = []             # columns to leave out
text = "error"           # columns of text: "error", "one-hot" or "ignore"
max_missing = 0.1        # drop columns with a larger share of missing values, fill the others with their mean
standardize = true       # give columns mean 0 and deviation 1
policy = "policy.toml"   # what this party is willing to answer
key_file = ""            # file with the key the parties share for alignment; "" if samples match already
peers = ""               # file that says with whom this party adds masked numbers; "" if with nobody
new = "new"              # folder with tables of new samples, one file per batch
approval = false         # true: a person approves each question with 'dkpca party approve'
proxy = ""               # HTTPS proxy of this site, such as "http://proxy:3128"; "" if the center is reached directly
"""


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
