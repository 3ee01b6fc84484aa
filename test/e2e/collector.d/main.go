// An OpenTelemetry Collector whose only receiver is that of OTLP. Its exporter "lines" prints each batch of spans or of log
// records as a line of OTLP in JSON on standard output.
package main

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

type lines struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Traces
}

type logLines struct {
	component.StartFunc
	component.ShutdownFunc
	consumer.Logs
}

func printTraces(_ context.Context, traces ptrace.Traces) error {
	text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

func newLines(context.Context, exporter.Settings, component.Config) (exporter.Traces, error) {
	traces, err := consumer.NewTraces(printTraces)
	return lines{Traces: traces}, err
}

func printLogs(_ context.Context, logs plog.Logs) error {
	text, err := (&plog.JSONMarshaler{}).MarshalLogs(logs)
	if err == nil {
		fmt.Println(string(text))
	}
	return err
}

func newLogLines(context.Context, exporter.Settings, component.Config) (exporter.Logs, error) {
	logs, err := consumer.NewLogs(printLogs)
	return logLines{Logs: logs}, err
}

func factories() (otelcol.Factories, error) {
	made := otelcol.Factories{Telemetry: otelconftelemetry.NewFactory()}
	var err error
	made.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return made, err
	}
	none := func() component.Config { return &struct{}{} }
	made.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](exporter.NewFactory(
		component.MustNewType("lines"), none, exporter.WithTraces(newLines, component.StabilityLevelStable),
		exporter.WithLogs(newLogLines, component.StabilityLevelStable)))
	return made, err
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
