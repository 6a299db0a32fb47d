package monitoring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// meaning returns the faults of a dashboard that its schema allows.
func meaning(d classic) (problems []string) {
	many := map[string]bool{} // by variable: whether several values of it may be chosen
	choice := false           // of a data source
	for _, v := range d.Templating.List {
		many[v.Name] = v.Multi != nil && *v.Multi
		switch v.Type {
		case dashboard.VariableTypeDatasource:
			choice = choice || v.Name == "datasource" && v.Query != nil && v.Query.String != nil && *v.Query.String == "prometheus"
		case dashboard.VariableTypeQuery:
			if !chosen(v.Datasource) {
				problems = append(problems, v.Name+": "+notChosen)
			}
		}
	}
	if !choice {
		problems = append(problems, "no variable datasource, by which a Prometheus is chosen")
	}
	ids := map[uint32]bool{}
	for _, p := range d.Panels {
		if p.Panel == nil || p.Panel.Id == nil || p.Panel.Title == nil {
			problems = append(problems, "a panel is a row, or has no id or title")
			continue
		}
		if ids[*p.Panel.Id] {
			problems = append(problems, fmt.Sprintf("%s: another panel has its id", *p.Panel.Title))
		}
		ids[*p.Panel.Id] = true
		for _, problem := range panel(*p.Panel, many) {
			problems = append(problems, *p.Panel.Title+": "+problem)
		}
	}
	return problems
}

const notChosen = "the data source is not the Prometheus that was chosen"

func chosen(source *common.DataSourceRef) bool {
	return source != nil && source.Type != nil && *source.Type == "prometheus" && source.Uid != nil && *source.Uid == "${datasource}"
}

func panel(p dashboard.Panel, many map[string]bool) (problems []string) {
	if p.Type != "timeseries" {
		problems = append(problems, fmt.Sprintf("type %q is not registered", p.Type))
	}
	if p.GridPos == nil || len(p.Targets) == 0 {
		problems = append(problems, "it has no place, or no query")
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		q, ok := target.(*prometheus.Dataquery)
		if !ok || q.RefId == nil || refs[*q.RefId] {
			return append(problems, "a query is none of Prometheus', or has no refId of its own")
		}
		refs[*q.RefId] = true
		if !chosen(p.Datasource) || !chosen(q.Datasource) {
			problems = append(problems, notChosen)
		}
		problems = append(problems, query(q, many)...)
	}
	return problems
}

var (
	variables = regexp.MustCompile(`\$\{?(\w+)\}?`)
	named     = regexp.MustCompile(`{{\s*(\w+)\s*}}`) // labels in a legend
)

// query parses an expression as Prometheus gets it, except for the user's choices.
func query(q *prometheus.Dataquery, many map[string]bool) (problems []string) {
	text := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return []string{err.Error()}
	}
	for _, v := range variables.FindAllStringSubmatch(text, -1) {
		if _, ok := many[v[1]]; !ok {
			problems = append(problems, "no such variable: "+v[1])
		}
	}
	for _, selector := range parser.ExtractSelectors(expr) {
		for _, m := range selector {
			v := variables.FindStringSubmatch(m.Value)
			if v != nil && many[v[1]] && m.Type != labels.MatchRegexp && m.Type != labels.MatchNotRegexp {
				problems = append(problems, fmt.Sprintf("%s: several values of %s are a regular expression", m, v[1]))
			}
		}
	}
	if q.LegendFormat == nil {
		return append(problems, "it has no legend")
	}
	if by, ok := kept(expr); ok {
		for _, label := range named.FindAllStringSubmatch(*q.LegendFormat, -1) {
			if !slices.Contains(by, label[1]) {
				problems = append(problems, fmt.Sprintf("the legend names %s, of which the outcome has none", label[1]))
			}
		}
	}
	return problems
}

// kept returns the labels of an expression's result, if an aggregation names them.
func kept(expr parser.Expr) (by []string, ok bool) {
	switch e := expr.(type) {
	case *parser.AggregateExpr:
		return e.Grouping, !e.Without
	case *parser.Call:
		if e.Func.Name == "histogram_quantile" {
			by, ok = kept(e.Args[1])
			return slices.DeleteFunc(slices.Clone(by), func(label string) bool { return label == "le" }), ok
		}
	}
	return nil, false
}
