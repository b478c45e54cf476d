# What students need: JupyterLab, the exercises, and what these use. In the course's folder, after `make release`:
#
#   docker build --file containers/students.Dockerfile --tag attention .
#   docker run --rm --publish 127.0.0.1:8888:8888 --volume attention:/home/student/exercises attention
#
# Then open the address with 127.0.0.1 that it prints. What students write stays in the volume. For torch's CPU build,
# add to the first --build-arg PIP_EXTRA_INDEX_URL= with the address that pytorch.org shows for Pip and CPU.
FROM python:3.11-slim-bookworm
WORKDIR /course
COPY LICENSE README.md pyproject.toml requirements.txt ./
COPY autograder autograder
ARG PIP_EXTRA_INDEX_URL
RUN pip install --no-cache-dir --constraint requirements.txt ".[triton]"
RUN useradd --create-home student
USER student
WORKDIR /home/student/exercises
COPY --chown=student exercises ./
EXPOSE 8888
CMD ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser"]
