{{- /* SPDX-License-Identifier: MIT */ -}}
{{- /* Names and labels that several templates have. Arguments are the root, or a list with it. */ -}}

{{- /* poolshim.name: (list ROOT PART) -> the name of an object */ -}}
{{- define "poolshim.name" -}}
{{- printf "%s-%s" ((index . 0).Release.Name | trunc 40 | trimSuffix "-") (index . 1) -}}
{{- end -}}

{{- /* poolshim.selector: (list ROOT PART) -> labels that select the pods of a part */ -}}
{{- define "poolshim.selector" -}}
app.kubernetes.io/name: poolshim
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- /* poolshim.labels: (list ROOT PART) -> labels of an object */ -}}
{{- define "poolshim.labels" -}}
{{ include "poolshim.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.Version | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
{{- end -}}

{{- /* poolshim.image: (list ROOT KEY) -> the name of an image */ -}}
{{- define "poolshim.image" -}}
{{- $image := index (index . 0).Values (index . 1) -}}
{{- $name := required (printf "which image? --set %s.repository=NAME" (index . 1)) $image.repository -}}
{{- printf "%s:%s" $name ($image.tag | default (index . 0).Chart.Version) -}}
{{- end -}}

{{- /* poolshim.context: the security context of a container without privileges */ -}}
{{- define "poolshim.context" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65534
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- /* poolshim.scheduling: (list ROOT PART) -> secrets for images, selector of nodes, tolerations */ -}}
{{- define "poolshim.scheduling" -}}
{{- $values := index (index . 0).Values (index . 1) -}}
{{- with (index . 0).Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
nodeSelector: {{ merge (dict) $values.nodeSelector (dict "kubernetes.io/os" "linux") | toJson }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end -}}
