"""The numbers printed in the paper."""

# Section II: parties for which the cost stays O(T^3).
CUBIC_EXAMPLE = {"T": 5000, "M": 10000, "D": 100, "fewest": 3, "most": 47}

# Table II: mean and standard deviation over 50 trials.
N_FEATURES = (1, 5, 10, 20, 50, 100, 200)

_PRINTED = """
toxicant-fibrate dkpca         0.3675±0.0383 0.0323±0.0218 0.0164±0.0128 0.0150±0.0118 0.0148±0.0111 0.0145±0.0110 0.0148±0.0115
toxicant-fibrate kpca          0.3675±0.0383 0.0259±0.0151 0.0173±0.0124 0.0148±0.0111 0.0150±0.0111 0.0145±0.0110 0.0148±0.0115
toxicant-fibrate pca-published 0.5048±0.0932 0.2009±0.1121 0.0352±0.0517 0.0259±0.0551 0.0277±0.0702 0.0264±0.0587 0.0243±0.0562
toxicant-azole   dkpca         0.4790±0.0410 0.3966±0.0305 0.2778±0.0361 0.1907±0.0376 0.1416±0.0331 0.1099±0.0283 0.0969±0.0259
toxicant-azole   kpca          0.4889±0.0350 0.3912±0.0341 0.2778±0.0379 0.1844±0.0341 0.1391±0.0325 0.1102±0.0283 0.0969±0.0259
toxicant-azole   pca-published 0.5019±0.0616 0.5124±0.0415 0.4655±0.0620 0.3781±0.0782 0.2207±0.1309 0.1982±0.1502 0.2134±0.1671
toxicant-others  dkpca         0.3341±0.0148 0.3326±0.0202 0.2477±0.0209 0.2004±0.0231 0.1499±0.0197 0.1428±0.0169 0.1410±0.0172
toxicant-others  kpca          0.3341±0.0148 0.3284±0.0267 0.2420±0.0229 0.1973±0.0207 0.1488±0.0190 0.1430±0.0176 0.1410±0.0172
toxicant-others  pca-published 0.4578±0.1367 0.4928±0.0992 0.4129±0.0763 0.3526±0.0888 0.2045±0.1324 0.1953±0.1613 0.2077±0.1584
"""  # noqa: E501


def _read(printed: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    table: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for line in printed.split("\n")[1:-1]:
        task, method, *cells = line.split()
        pairs = (cell.split("±") for cell in cells)
        table.setdefault(task, {})[method] = [(float(mean), float(std)) for mean, std in pairs]
    return table


TABLE_2 = _read(_PRINTED)  # task -> method -> (mean, std) for each of N_FEATURES
