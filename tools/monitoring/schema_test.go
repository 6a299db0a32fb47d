package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// Grafana's types accept any content in a panel or query whose type is not registered. Register new types here.
func init() {
	cog.NewRuntime().RegisterPanelcfgVariant(timeseries.VariantConfig())
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
}

// classic is the form that every Grafana imports. It is deprecated in favour of version 2, which only new versions know.
type classic = dashboard.Dashboard //nolint:staticcheck // see above

// judge returns all faults of a dashboard. One that its schema refuses is judged no further.
func judge(raw []byte, enums map[string][]string) []string {
	d, problems := decode(raw)
	if len(problems) == 0 {
		problems = strangers(d, enums)
	}
	if len(problems) == 0 {
		problems = meaning(d)
	}
	return problems
}

// decode decodes a dashboard strictly. The strict decoder drops panels, so the accepted document is decoded again for its values.
func decode(raw []byte) (d classic, problems []string) {
	problems = said("", new(classic).UnmarshalJSONStrict(raw))
	var inside struct {
		Panels []struct{ FieldConfig json.RawMessage }
	}
	if err := errors.Join(json.Unmarshal(raw, &inside), json.Unmarshal(raw, &d)); err != nil {
		return d, append(problems, err.Error())
	}
	// The strict decoder of a panel reads its fieldConfig leniently.
	for i, p := range inside.Panels {
		path := fmt.Sprintf("panels[%d].fieldConfig.", i)
		problems = append(problems, said(path, new(dashboard.FieldConfigSource).UnmarshalJSONStrict(p.FieldConfig))...)
	}
	return d, append(problems, said("", d.Validate())...)
}

// said returns the sentences of an error of Grafana's types, which may be an error without any.
func said(path string, err error) (problems []string) {
	var all cog.BuildErrors
	if err != nil && !errors.As(err, &all) {
		return []string{path + err.Error()}
	}
	for _, e := range all {
		problems = append(problems, path+strings.TrimSpace(e.Error()))
	}
	return problems
}
