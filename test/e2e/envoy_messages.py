"""The messages of Envoy's rate limit service and of its external authorization, for protobuf's own Python library: it reads
what the proxy has written, and writes what the proxy reads. Field numbers are those of Envoy's API, version 3."""

import sys

import harness

try:
    sys.path.insert(0, str(harness.ROOT / ".deps/python"))
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError:
    descriptor_pb2 = None

# NAME: FIELD=NUMBER TYPE, where a type with [] is repeated, and one in upper case is another of these messages.
_MESSAGES = """
Entry: key=1 string, value=2 string
Descriptor: entries=1 Entry[]
RateLimitRequest: domain=1 string, descriptors=2 Descriptor[], hits_addend=3 uint32
Duration: seconds=1 int64, nanos=2 int32
Limit: requests_per_unit=1 uint32, unit=2 uint32, name=3 string
DescriptorStatus: code=1 uint32, current_limit=2 Limit, limit_remaining=3 uint32, duration_until_reset=4 Duration
Header: key=1 string, value=2 string, raw_value=3 bytes
RateLimitResponse: overall_code=1 uint32, statuses=2 DescriptorStatus[], response_headers_to_add=3 Header[], \
request_headers_to_add=4 Header[], raw_body=5 bytes
BoolValue: value=1 bool
HeaderOption: header=1 Header, append=2 BoolValue, append_action=3 uint32
SocketAddress: address=2 string, port_value=3 uint32
Pipe: path=1 string
Address: socket_address=1 SocketAddress, pipe=2 Pipe
Peer: address=1 Address, principal=4 string
HttpRequest: id=1 string, method=2 string, headers=3 Entry[], path=4 string, host=5 string, scheme=6 string, \
size=9 int64, protocol=10 string
Timestamp: seconds=1 int64, nanos=2 int32
Request: time=1 Timestamp, http=2 HttpRequest
TlsSession: sni=1 string
Attributes: source=1 Peer, destination=2 Peer, request=4 Request, tls_session=12 TlsSession
CheckRequest: attributes=1 Attributes
Status: code=1 int32, message=2 string
HttpStatus: code=1 uint32
Denied: status=1 HttpStatus, headers=2 HeaderOption[], body=3 string
Ok: headers=2 HeaderOption[], headers_to_remove=5 string[], response_headers_to_add=6 HeaderOption[]
CheckResponse: status=1 Status, denied_response=2 Denied, ok_response=3 Ok, error_response=5 Denied
"""


def _classes():
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="envoy_services.proto", package="t", syntax="proto3")
    for line in _MESSAGES.strip().splitlines():
        name, fields = line.split(": ")
        message = file.message_type.add(name=name)
        for text in fields.split(", "):
            field, kind = text.split(" ")
            field, number = field.split("=")
            made = message.field.add(name=field, number=int(number),
                                     label=kinds.LABEL_REPEATED if kind.endswith("[]") else kinds.LABEL_OPTIONAL)
            kind = kind.removesuffix("[]")
            if kind[0].isupper():
                made.type, made.type_name = kinds.TYPE_MESSAGE, f".t.{kind}"
            else:
                made.type = getattr(kinds, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{message.name}"))
            for message in file.message_type}


CLASSES = _classes() if descriptor_pb2 else {}


def make(kind, /, **fields):
    return CLASSES[kind](**fields)


def options(*pairs, **more):
    """HeaderValueOptions."""
    return [make("HeaderOption", header=make("Header", key=key, value=value), **more) for key, value in pairs]


def headers(*pairs):
    """HeaderValues."""
    return [make("Header", key=key, value=value) for key, value in pairs]
