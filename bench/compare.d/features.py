"""The features of the feature rows, the same in every proxy: 1,000 routes, 100 rules for header fields, a log.

All rows of the group have the same requests, one for each route. Half of the routes are exact paths, half are prefixes.
Where several match, sluice and envoy take the first, nginx an exact path before the longest prefix; so does haproxy as
it is configured here, with maps. In these tables each request matches one route.
"""
from dataclasses import dataclass

TENANTS = 500                                          # Each has two routes.
RULES = 25                                             # Of each kind: set, remove; in requests, in responses.
PRESENT = 5                                            # Of the fields to remove, in each message.
PROBE = '/svc/probe'                                   # A route that is not measured: returns what the origin received.


@dataclass(frozen=True)
class Features:
    """Without any, everything is forwarded by one rule."""
    routes: str = ''                                   # By 'hosts': one for each tenant; by 'paths': for any host.
    headers: bool = False
    log: str = ''                                      # 'text' or 'json'
    observed: bool = False                             # Spans of 1 % of the requests, and metrics that are read each second.


@dataclass(frozen=True)
class Route:
    host: str
    path: str
    is_exact: bool

    @property
    def asked(self): return self.path + ('' if self.is_exact else 'orders/12345678')


def routes():
    for i in range(TENANTS):
        host = f'tenant-{i:03}.example.com'
        yield Route(host, f'/svc/item-{i:03}/status', is_exact=True)
        yield Route(host, f'/svc/team-{i:03}/', is_exact=False)


# ---- Header fields: name -> value

def named(kind):
    """Names of several lengths, as usual in practice."""
    words = ('id', 'zone', 'client', 'deployment', 'cache-key')
    return {f'x-{kind}-{word}-{i}': f'{word}-{i}-of-{kind}' for i in range(RULES // len(words)) for word in words}


def first(fields, count=PRESENT): return dict(list(fields.items())[:count])


SET_IN_REQUESTS, SET_IN_RESPONSES = named('edge'), named('served')
REMOVED_FROM_REQUESTS, REMOVED_FROM_RESPONSES = named('internal'), named('backend')
RULES_OF = (('request', SET_IN_REQUESTS, REMOVED_FROM_REQUESTS), ('response', SET_IN_RESPONSES, REMOVED_FROM_RESPONSES))
SENT_BY_ORIGIN = first(REMOVED_FROM_RESPONSES)
SENT_BY_CLIENT = {
    'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0',
    'Accept': 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8',
    'Accept-Language': 'en-US,en;q=0.5', 'Cookie': 'session=0123456789abcdef0123456789abcdef',
    **first(REMOVED_FROM_REQUESTS)}
