package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

func source(t *testing.T) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../docker/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	for _, problem := range judge(source(t), values(t)) {
		t.Error(problem)
	}
}

// The dashboard is read strictly everywhere: an unknown field in any object and a value of the wrong type are refused.
func TestEachPlaceIsReadStrictly(t *testing.T) {
	t.Parallel()
	var root map[string]any
	if err := json.Unmarshal(source(t), &root); err != nil {
		t.Fatal(err)
	}
	places := 0
	refused := func(path, key string, object map[string]any, value any) {
		places++
		old, had := object[key]
		object[key] = value
		raw, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := decode(raw); len(problems) == 0 {
			t.Errorf("%s.%s may be %v", path, key, value)
		}
		if object[key] = old; !had {
			delete(object, key)
		}
	}
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case map[string]any:
			for key, value := range node {
				refused(path, key, node, another(value))
				walk(path+"."+key, value)
			}
			refused(path, "nobodyKnows", node, 1)
		case []any:
			for i, value := range node {
				walk(fmt.Sprintf("%s[%d]", path, i), value)
			}
		}
	}
	walk("dashboard", root)
	if places < 100 {
		t.Errorf("tried %d places only", places)
	}
}

// another is a value of another type.
func another(value any) any {
	if _, ok := value.(string); ok {
		return 7
	}
	return "seven"
}

// Each rule must be able to fail. Each case changes the dashboard once and has the expected problem.
func TestChangesAreRefused(t *testing.T) {
	t.Parallel()
	enums := values(t)
	const timeseries = `"type": "timeseries",
   "datasource": {
    "type": "prometheus",
    "uid": "${datasource}"`
	for name, c := range map[string]struct{ old, new, want string }{
		// Grafana's types refuse these.
		"a misspelt field":          {`"gridPos"`, `"gridpos"`, "panels[0].Panel: unexpected field 'gridpos'"},
		"one in a query":            {`"legendFormat"`, `"legend"`, "panels[0].targets[0].Dataquery: unexpected field 'legend'"},
		"one in a panel's options":  {`"placement"`, `"place"`, "panels[0].options.legend.VizLegendOptions: unexpected field 'place'"},
		"one in a panel's fields":   {`"unit"`, `"units"`, "panels[0].fieldConfig.defaults.FieldConfig: unexpected field 'units'"},
		"one of the variables":      {`"includeAll"`, `"includeall"`, "templating.list[1].VariableModel: unexpected field 'includeall'"},
		"a field that is missing":   {`"displayMode": "list",`, ``, "panels[0].options.legend.displayMode: required field is missing"},
		"a wrong type":              {`"schemaVersion": 39`, `"schemaVersion": "39"`, "cannot unmarshal string"},
		"one deep inside":           {`"min": 0`, `"min": "0"`, "cannot unmarshal string into Go struct field FieldConfig.defaults.min"},
		"a panel of no width":       {`"w": 8`, `"w": 0`, "panels[0].Panel.gridPos.w: must be > 0"},
		"a panel that is too wide":  {`"w": 8`, `"w": 25`, "panels[0].Panel.gridPos.w: must be <= 24"},
		"a misspelt enum":           {`"displayMode": "list"`, `"displayMode": "lists"`, "lists is none of list, table, hidden"},
		"one of numbers":            {`"refresh": 2`, `"refresh": 3`, "3 is none of 0, 1, 2"},
		"a variable of no type":     {`"type": "query"`, `"type": "queries"`, "queries is none of query,"},
		"a type that nobody knows":  {`"type": "timeseries"`, `"type": "timeserie"`, `type "timeserie" is not registered`},
		"no JSON":                   {`"title"`, `title`, "invalid character"},
		"a field in place of a row": {`"type": "timeseries"`, `"type": "row"`, "RowPanel: unexpected field"},

		// Prometheus' parser refuses these.
		"no end":              {`{job=~\"$job\"})`, `{job=~\"$job\"}`, "unclosed left parenthesis"},
		"no such function":    {`(rate(`, `(rates(`, `unknown function with name "rates"`},
		"a rate of no range":  {`[$__rate_interval]`, ``, "expected type range vector"},
		"a range of no range": {`[$__rate_interval]`, `[$__rate]`, "unexpected character in duration expression"},

		// These would leave a panel empty.
		"no such variable":           {`=~\"$job\"`, `=~\"$jobs\"`, "no such variable: jobs"},
		"one of several values":      {`job=~\"$job\"`, `job=\"$job\"`, "several values of job are a regular expression"},
		"a legend of no label":       {`{{instance}}`, `{{instances}}`, "the legend names instances"},
		"a legend of buckets":        {`"p50"`, `"{{le}}"`, "the legend names le"},
		"another data source":        {`"uid": "${datasource}"`, `"uid": "prometheus"`, "job: " + notChosen},
		"another kind of one":        {`"type": "prometheus",`, `"type": "loki",`, "job: " + notChosen},
		"one of a panel":             {timeseries, strings.Replace(timeseries, "${datasource}", "prometheus", 1), "Leases held: " + notChosen},
		"a data source of no choice": {`"name": "datasource"`, `"name": "datasources"`, "no variable datasource"},
		"a choice of others":         {`"query": "prometheus"`, `"query": "loki"`, "no variable datasource"},
		"a query of no name":         {`"refId": "A",`, ``, "no refId of its own"},
		"two queries of one name":    {`"refId": "B"`, `"refId": "A"`, "no refId of its own"},
		"two panels of one id":       {`"id": 2,`, `"id": 1,`, "another panel has its id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			was := source(t)
			raw := bytes.Replace(was, []byte(c.old), []byte(c.new), 1)
			if bytes.Equal(raw, was) {
				t.Fatalf("nothing says %s", c.old)
			}
			if all := strings.Join(judge(raw, enums), "\n"); !strings.Contains(all, c.want) {
				t.Errorf("said %q, want %q", all, c.want)
			}
		})
	}
}
