"""SPDX 2.3, as JSON (ISO/IEC 5962 with the changes of 2.3)."""
import re

from components import OWN_LICENSE

NONE = 'NOASSERTION'


def identifier(name): return 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]', '-', name)


def package(name, version, **more):
    return {'SPDXID': identifier(name), 'name': name, 'versionInfo': version, 'downloadLocation': NONE, 'filesAnalyzed': False,
            'licenseConcluded': NONE, 'licenseDeclared': NONE, 'copyrightText': NONE, **more}


def checksum(sha256): return {'checksums': [{'algorithm': 'SHA256', 'checksumValue': sha256}]} if sha256 else {}


def of_component(component):
    reference = {'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl', 'referenceLocator': component.purl}
    return package(component.name, component.version, **checksum(component.sha256), externalRefs=[reference],
                   licenseDeclared=component.license or NONE, primaryPackagePurpose='LIBRARY',
                   sourceInfo=f'{"Built from" if component.is_linked else "Comes with"} {component.origin}.')


def document(product):
    own = package('sluice', product.version, **checksum(product.sha256), licenseDeclared=OWN_LICENSE,
                  primaryPackagePurpose='APPLICATION')
    relations = [{'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES', 'relatedSpdxElement': own['SPDXID']}]
    relations += [{'spdxElementId': own['SPDXID'], 'relationshipType': 'STATIC_LINK' if component.is_linked else 'DYNAMIC_LINK',
                   'relatedSpdxElement': identifier(component.name)} for component in product.components]
    return {'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': f'sluice-{product.version}',
            'documentNamespace': f'https://spdx.org/spdxdocs/sluice-{product.version}-{product.sha256}',
            'creationInfo': {'created': product.time, 'creators': ['Tool: sluice-sbom']},
            'packages': [own, *map(of_component, product.components)], 'relationships': relations}
