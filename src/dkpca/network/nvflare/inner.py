"""The line between an engine and the processes of its jobs: on loopback, and closed to everybody else.

NVFlare would leave it open to every user of the machine, or use the consortium's certificates, of which each member
has one. Here each start makes a certificate of its own, which whoever can read the engine's folder may show.
"""

import ssl
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.drivers import tcp_driver
from nvflare.fuel.f3.drivers.driver_params import DriverParams

from dkpca.network.nvflare import certificates
from dkpca.store import storage

FILE = "inner.pem"


def make(engine: Path, name: str) -> None:
    """Write the key and the certificate of the line, under the name that NVFlare expects at both ends."""
    key, certificate = certificates.self_signed(name)
    data = certificates.key_to_pem(key) + certificates.to_pem(certificate)
    storage.write(engine / FILE, data, private=True)


def use(engine: Path) -> None:
    """Let NVFlare's connections within the machine show that certificate, and accept no other."""
    pem = engine / FILE

    def context(params: dict[str, Any], ssl_server: bool) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if ssl_server else ssl.PROTOCOL_TLS_CLIENT)
        made.check_hostname = False
        made.verify_mode = ssl.CERT_REQUIRED
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.load_verify_locations(pem)
        made.load_cert_chain(pem)
        params[DriverParams.IMPLEMENTED_CONN_SEC.value] = "mTLS within the machine"
        return made

    tcp_driver.get_ssl_context = context
