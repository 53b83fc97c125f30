{{- define "codehub.labels" -}}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "codehub.selector" . }}
{{- end }}

{{- define "codehub.selector" -}}
app.kubernetes.io/name: codehub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "codehub.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* What every process of codehub is told. Secrets by reference alone. */}}
{{- define "codehub.environment" -}}
- name: CODEHUB_DATABASE_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.database.secretName }}, key: {{ .Values.database.secretKey }}}}
{{- end }}

{{- define "codehub.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "codehub.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "codehub.volumes" -}}
- name: data
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- end }}

{{- define "codehub.mounts" -}}
- {name: data, mountPath: /var/lib/codehub}
- {name: tmp, mountPath: /tmp}
{{- end }}
