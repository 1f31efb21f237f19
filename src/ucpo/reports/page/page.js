"use strict";
for (const figure of JSON.parse(document.getElementById("data").textContent))
  Charts.figure(figure, document.getElementById(figure.name));
