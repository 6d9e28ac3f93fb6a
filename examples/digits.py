"""Four parties each see a quarter of every digit's pixels; together they get the components of the whole image."""

from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA

from dkpca import DKPCA, subspace_error


def main() -> None:
    """Fit, compare with pooled kernel PCA, and print what was sent and what is proved."""
    train, new = load_digits().data[:1500], load_digits().data[1500:]
    model = DKPCA(n_components=10, gamma="auto", parties=4).fit(train)
    pooled = KernelPCA(n_components=10, kernel="rbf", gamma=model.gamma_).fit(train)

    print("party     columns  rank  bytes sent  bytes of raw columns")
    for entry in model.ledger_:
        print(f"{entry.party:<10}{entry.n_features:>7}{entry.rank:>6}{entry.bytes_sent:>12}{entry.bytes_raw:>22}")
    print(
        f"\nsubspace error against pooled kernel PCA  {subspace_error(pooled.eigenvectors_, model.eigenvectors_):.2e}"
    )
    Q = pooled.eigenvectors_.T @ model.eigenvectors_
    truth = pooled.transform(new)
    error = ((model.transform(new) @ Q.T - truth) ** 2).sum() / (truth**2).sum()
    print(f"relative error of {len(new)} new samples' scores    {error**0.5:.2e}")
    print("\nWhat the center can prove without data:")
    for statement in model.certificate_.statements():
        print(f"- {statement}")


if __name__ == "__main__":
    main()
