"""CycloneDX 1.6, as JSON (ECMA-424)."""
import uuid

from components import OWN_LICENSE


def hashes(sha256): return {'hashes': [{'alg': 'SHA-256', 'content': sha256}]} if sha256 else {}
def licenses(expression): return {'licenses': [{'expression': expression}]} if expression else {}


def of_component(component):
    more = {'externalReferences': [{'type': 'vcs', 'url': component.repository}]} if component.repository else {}
    more['properties'] = [{'name': 'sluice:link', 'value': 'static' if component.is_linked else 'dynamic'},
                          {'name': 'sluice:origin', 'value': component.origin}]
    return {'type': 'library', 'bom-ref': component.purl, 'name': component.name, 'version': component.version, 'scope': 'required',
            **hashes(component.sha256), **licenses(component.license), 'purl': component.purl, **more}


def document(product):
    own = {'type': 'application', 'bom-ref': 'sluice', 'name': 'sluice', 'version': product.version, **hashes(product.sha256),
           **licenses(OWN_LICENSE)}
    refs = [component.purl for component in product.components]
    return {'$schema': 'http://cyclonedx.org/schema/bom-1.6.schema.json', 'bomFormat': 'CycloneDX', 'specVersion': '1.6',
            'serialNumber': f'urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, product.sha256)}', 'version': 1,
            'metadata': {'timestamp': product.time, 'component': own,
                         'tools': {'components': [{'type': 'application', 'name': 'sluice-sbom'}]}},
            'components': [of_component(component) for component in product.components],
            'dependencies': [{'ref': 'sluice', 'dependsOn': refs}, *({'ref': ref} for ref in refs)]}
